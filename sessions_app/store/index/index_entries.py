"""Index entries of values of state, and the deletion of a session's entries in all indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from django.db import transaction
from django.db.models import F

from sessions_app.store.database import json_sql
from sessions_app.store.index import event_index, index_backlog
from sessions_app.store.models import (
    AgentSession,
    Scope,
    SessionTrait,
    SessionUsage,
    StateChange,
    StateValue,
)

CHUNK = 500
"""Rows written or deleted in one transaction."""


def forget_session(session_pk: int) -> None:
    """Delete the index entries of a session to be deleted, in small transactions. Its traits go with its row.

    Values that it wrote to user and app state stay indexed.
    """
    shared = StateChange.objects.filter(index_backlog.BEHIND_CURSOR, session=session_pk, removed=False)
    put_values(shared.exclude(scope=Scope.SESSION).only("scope", "key_id", "owner_id", "value").iterator())
    AgentSession.objects.filter(pk=session_pk).update(indexed_seq=F("last_seq"))
    while _delete_chunk(session_pk):
        pass


def reset_session(session_pk: int) -> None:
    """Delete the index entries of a session, so that it is indexed again."""
    forget_session(session_pk)
    with transaction.atomic():
        SessionTrait.objects.filter(session=session_pk).delete()
        SessionUsage.objects.filter(session=session_pk).delete()
        AgentSession.objects.filter(pk=session_pk).update(
            indexed_seq=-1, problems_seq=-1, problems_version=F("problems_version") + 1
        )


def forget_owner(scope: Scope, owner_id: int) -> None:
    """Delete the indexed values of an owner of shared state."""
    StateValue.objects.filter(scope=scope, owner_id=owner_id).delete()


def put_values(changes: Iterable[StateChange]) -> None:
    """Index values that were written without an event, such as by an import."""
    values = (value for change in changes for value in state_values(change))
    while batch := list(islice(values, CHUNK)):
        StateValue.objects.bulk_create(batch, ignore_conflicts=True)


def state_values(change: StateChange) -> Iterator[StateValue]:
    """Yield the index rows of a changed value: one for any value, one for this value's mark."""
    if change.value is not None:
        for mark in (json_sql.ANY, json_sql.mark(change.value)):
            yield StateValue(scope=change.scope, key_id=change.key_id, mark=mark, owner_id=change.owner_id)


def _delete_chunk(session_pk: int) -> bool:
    """Delete a chunk of a session's index entries; return whether there may be more."""
    with transaction.atomic():
        entries = event_index.delete_entries(session_pk, CHUNK)
        values = StateValue.objects.filter(scope=Scope.SESSION, owner_id=session_pk)
        pks = list(values.values_list("pk", flat=True)[:CHUNK])
        StateValue.objects.filter(pk__in=pks).delete()
    return entries == CHUNK or len(pks) == CHUNK
