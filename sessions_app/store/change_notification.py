"""The doorbell: says "look again" after a commit. The tables are the truth; a lost ring costs at most a second.

On SQLite nothing is rung: listeners watch `PRAGMA data_version` (see `sessions_app.live`), which hears every
process. On PostgreSQL a NOTIFY is sent after the commit, never inside it, where it would serialise commits.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import DatabaseError, connection, transaction

CHANNEL = "devui"

log = logging.getLogger(__name__)


def notify_after_commit() -> None:
    """Tell listeners to look again once the current transaction has committed."""
    if connection.vendor == "postgresql":
        transaction.on_commit(partial(_notify), robust=True)


def _notify() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
    except DatabaseError:
        log.warning("The bell could not be rung; listeners look again by themselves within a second.")
