"""Change notification: tell subscribers in all processes that a transaction has committed.

On SQLite nothing is sent: subscribers poll `PRAGMA data_version` (see `change_listener`). On PostgreSQL a NOTIFY is
sent after the commit, because inside the transaction it would serialize commits.
"""

from __future__ import annotations

import logging
from functools import partial

from django.db import DatabaseError, connection, transaction

CHANNEL = "devui"

log = logging.getLogger(__name__)


def notify_after_commit() -> None:
    """Notify subscribers once the current transaction has committed."""
    if connection.vendor == "postgresql":
        transaction.on_commit(partial(_send_notification), robust=True)


def _send_notification() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
    except DatabaseError:
        log.warning("The change notification could not be sent; pages update within a second anyway.")
