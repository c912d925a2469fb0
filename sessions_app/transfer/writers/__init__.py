"""Writing what an importer reads: a replay of the source's events in the order of time.

So user and app keys, which many sessions write, get the history they had. Every batch is one transaction, and
what has come is compared, not written again: an import can be stopped, resumed and repeated at will. What is
here already is never changed:

- a session whose events differ from the source's, or that went on here, is left as it is and reported;
- user and app state that anybody else has written keeps its values. What the source's events wrote to it comes
  into the history before that, and adds the keys that are not here.

State that no event explains (given at creation, or changed behind ADK's back) gets ledger rows of its own.
"""

from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.locations import fingerprint_of, import_location
from sessions_app.transfer.writers.session_import import Progress, import_sessions

__all__ = ["ImportReport", "Progress", "fingerprint_of", "import_location", "import_sessions"]
