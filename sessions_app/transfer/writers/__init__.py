"""Import of what readers yield: the source's events are applied in order of time.

That gives user and app keys, which many sessions write, their original history. Every batch is one transaction, and
stored events are compared instead of written again, so an import can be stopped, resumed and repeated. Stored data
never changes:

- a session whose events differ from the source, or that has new events here, is left unchanged and reported;
- user and app state that another writer has changed keeps its values. The source's writes are added to the history
  before those changes, and keys that do not exist yet are created.

State that no event explains (initial state, or changes behind ADK's back) gets its own ledger rows.
"""

from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.locations import import_location
from sessions_app.transfer.writers.session_import import Progress, import_sessions

__all__ = ["ImportReport", "Progress", "import_location", "import_sessions"]
