"""Artifact versions of a session at an event, from the events' `actions.artifactDelta`.

ADK's rule (`google/adk/sessions/_rewind_utils.py`): the last version named by an event is the current one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from django.db.models import QuerySet

from sessions_app.store.models import AgentSession, Artifact, Event

CHUNK = 500


def named_versions(session: AgentSession, *, first: int, last: int) -> dict[str, int]:
    """Return the last version of each file named by the events from `first` to `last`, including `user:` files."""
    versions: dict[str, int] = {}
    for _, delta in _iter_deltas(session, first, last):
        versions.update(delta)
    return versions


def versions_before(session: AgentSession, seq: int, names: Collection[str]) -> dict[str, int]:
    """Return the last versions of the files named by events before `seq`; scans back only as far as needed."""
    missing = set(names)
    versions: dict[str, int] = {}
    if not missing:
        return versions
    for _, delta in _iter_deltas(session, 1, seq - 1, newest_first=True):
        versions.update((name, delta[name]) for name in missing.intersection(delta))
        missing.difference_update(delta)
        if not missing:
            break
    return versions


def artifact_pks_at(session: AgentSession, event: Event) -> list[int]:
    """Return the primary keys of the session's artifact versions that existed at an event.

    These are the versions up to the last one named so far and, of versions that no event names, those saved before the
    event's timestamp.
    """
    rows = session_artifacts(session).values_list("pk", "filename", "version", "created_at")
    saved = list(rows.order_by("filename_id", "version"))
    if not saved:
        return []
    then = named_versions(session, first=1, last=event.seq)
    later = {
        (name, version)
        for _, delta in _iter_deltas(session, event.seq + 1, session.last_seq)
        for name, version in delta.items()
    }
    return [
        pk
        for pk, name, version, created_at in saved
        if version <= then.get(name, -1) or ((name, version) not in later and created_at <= event.timestamp)
    ]


def session_artifacts(session: AgentSession) -> QuerySet[Artifact]:
    """Return the versions of a session's own files, without those of its user; content is deferred."""
    return Artifact.objects.filter(
        realm=session.realm,
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.session_id,
    ).defer("content")


def _iter_deltas(
    session: AgentSession, first: int, last: int, *, newest_first: bool = False
) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield (seq, artifact delta) of the events with an artifact delta."""
    if last < first:
        return
    rows = Event.objects.filter(session=session, seq__range=(first, last), summary__contains='"artifacts":')
    rows = rows.order_by("-seq" if newest_first else "seq")
    for seq, data in rows.values_list("seq", "data").iterator(CHUNK):
        delta = (json.loads(data).get("actions") or {}).get("artifactDelta") or {}
        yield seq, {name: version for name, version in delta.items() if isinstance(version, int)}
