"""Rewind of a session to before an invocation: appends one event, like ADK's `Runner.rewind_async`.

The event's shape and the rule for artifacts are ADK's (`google/adk/sessions/_rewind_utils.py`). The state is restored
from the ledger instead of from the events, so seeded, edited and imported keys are restored too, and keys that did not
exist are removed: as in ADK, the event has None for them.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Count, QuerySet

from sessions_app.branches import artifact_versions, not_undone
from sessions_app.branches.rewind_plan import (
    FileOutcome,
    FilePlan,
    KeyPlan,
    RewindPlan,
    StoredValue,
)
from sessions_app.lookup import find_event, find_session
from sessions_app.sessions import storage_location
from sessions_app.store import events, scopes
from sessions_app.store.artifacts import artifact_versions as artifacts
from sessions_app.store.artifacts.artifact_versions import USER_PREFIX, VersionMetadata
from sessions_app.store.artifacts.content_files import Payload
from sessions_app.store.errors import BadInput, InvocationMissing, StaleSession
from sessions_app.store.events import EventRecord
from sessions_app.store.events.attribution import Writer
from sessions_app.store.events.conditions import IS_USER_MESSAGE
from sessions_app.store.models import AgentSession, Artifact, ChangeCause, Event, Scope, StateChange
from sessions_app.store.realms import refuse_read_only
from sessions_app.store.runs.session_runs import finish_rewound, require_idle
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import AppendResult
from sessions_app.store.short_texts import truncate
from sessions_app.store.state import history

_UNTYPED = "application/octet-stream"
_TOMBSTONE = {"inlineData": {"mimeType": _UNTYPED}}
_NO_BYTES = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of empty content: ADK hides an artifact by saving an empty `application/octet-stream`."""


def invocation_at(session: AgentSession, *, invocation_id: str = "", event_id: str = "") -> Event:
    """Return the first event of an invocation, given by its id or by any of its events.

    Raises:
        EventMissing: the session has no such event.
        InvocationMissing: the session has no event of the invocation.
        BadInput: the event belongs to no invocation, so ADK cannot rewind to before it.
    """
    target_id = invocation_id or find_event(session, event_id=event_id).invocation_id
    if not target_id:
        raise BadInput(
            f"Event {event_id!r} has no invocation id, and a rewind goes to before an invocation.",
            hint="Choose an event of an invocation, or fork the session at the event before.",
        )
    first = _light_events(session).filter(invocation_id=target_id).order_by("seq").first()
    if first is None:
        raise InvocationMissing(
            f"Session {session.session_id!r} has no invocation {target_id!r}.",
            hint=f"GET /api/v1/sessions/{session.pk}/events lists its events with their invocations.",
        )
    return first


def plan_rewind(session: AgentSession, *, invocation_id: str = "", event_id: str = "") -> RewindPlan:
    """Return the plan of a rewind to before an invocation, or before that of an event. Writes nothing.

    Raises:
        EventMissing, InvocationMissing: see `invocation_at`.
        BadInput: see `invocation_at`; or the session is an eval attempt, or a copy of another service's session.
    """
    refuse_read_only(session)
    storage_location.refuse_copy(session)
    first = invocation_at(session, invocation_id=invocation_id, event_id=event_id)
    since = _light_events(session).filter(seq__gte=first.seq)
    counted = since.aggregate(events=Count("pk"), invocations=Count("invocation_id", distinct=True))
    then = _session_keys(session, first.seq - 1)
    now = _session_keys(session, session.last_seq)
    user_files, session_files = _files_since(session, first)
    return RewindPlan(
        session_pk=session.pk,
        revision=session.revision,
        first=first,
        first_message=_first_message(since),
        events=counted["events"],
        invocations=counted["invocations"],
        keys=[
            KeyPlan(key, _value_or_none(now.get(key)), _value_or_none(then.get(key)))
            for key in sorted(then.keys() | now.keys())
            if not _is_same(then.get(key), now.get(key))
        ],
        files=session_files,
        shared=not_undone.shared_since(session, first),
        user_files=user_files,
        memory=not_undone.memory_since(session, first),
        effects=not_undone.effects(since),
    )


def rewind(
    session_pk: int,
    *,
    invocation_id: str = "",
    event_id: str = "",
    revision: int | None = None,
    person: str = "",
) -> tuple[RewindPlan, AppendResult, EventRecord]:
    """Rewind a session in one transaction. `revision` is that of the confirmed plan, `person` the name
    of the person who rewinds; empty: unknown.

    Raises:
        SessionMissing: no such session.
        SessionBusy: a run is active on it.
        StaleSession: the session has changed since the plan was made.
        EventMissing, InvocationMissing, BadInput: see `plan_rewind`.
    """
    with transaction.atomic():
        # The lock also blocks queueing of runs meanwhile, because their rows refer to the session's row.
        session = find_session(session_pk, locked=True)
        require_idle(session.pk, session.session_id)
        if revision is not None and revision != session.revision:
            raise StaleSession(
                f"Session {session.session_id!r} has changed since the rewind was planned.",
                hint="Review the new plan and confirm it.",
            )
        plan = plan_rewind(session, invocation_id=invocation_id, event_id=event_id)
        saved = {
            file.name: _save_restored_file(session, file)
            for file in plan.files
            if file.outcome != FileOutcome.ELSEWHERE
        }
        record = _build_rewind_event(plan, saved, person)
        appended = writes.append_event(session, record, cause=ChangeCause.REWIND)
        finish_rewound(session.pk, plan.first.seq)
    return plan, appended, record


def _light_events(session: AgentSession) -> QuerySet[Event]:
    return Event.objects.filter(session=session).defer("data", "private", "summary")


def _first_message(since: QuerySet[Event]) -> str:
    """Return the truncated text of the first user message in the rewound events."""
    summary = since.filter(IS_USER_MESSAGE).order_by("seq").values_list("summary", flat=True).first()
    text = json.loads(summary).get("text", "") if summary else ""
    return truncate(text, not_undone.PREVIEW_LENGTH)


def _session_keys(session: AgentSession, position: int) -> dict[str, StateChange]:
    return {row.key: row for row in history.stored_writes(Scope.SESSION, session.pk, position)}


def _value_or_none(row: StateChange | None) -> StoredValue | None:
    return None if row is None else StoredValue.of(row)


def _is_same(change: StateChange | None, other: StateChange | None) -> bool:
    if change is None or other is None:
        return change is other
    return (change.value, change.private) == (other.value, other.private)


def _files_since(session: AgentSession, first: Event) -> tuple[list[str], list[FilePlan]]:
    """Return the `user:` files saved since `first`, and the session's files that changed."""
    current = artifact_versions.named_versions(session, first=first.seq, last=session.last_seq)
    session_files = sorted(name for name in current if not name.startswith(USER_PREFIX))
    then = artifact_versions.versions_before(session, first.seq, session_files)
    plans = [
        FilePlan(name, current[name], then.get(name), _file_outcome(session, name, then.get(name)))
        for name in session_files
        if then.get(name) != current[name]
    ]
    return sorted(name for name in current if name.startswith(USER_PREFIX)), plans


def _file_outcome(session: AgentSession, name: str, then: int | None) -> FileOutcome:
    versions = _file_versions(session, name)
    if not versions.exists():
        return FileOutcome.ELSEWHERE
    if then is None:
        return FileOutcome.HIDDEN
    return FileOutcome.RESTORED if versions.filter(version=then).exists() else FileOutcome.LOST


def _file_versions(session: AgentSession, name: str) -> QuerySet[Artifact]:
    return artifact_versions.session_artifacts(session).filter(filename_id=scopes.key_id(name))


def _save_restored_file(session: AgentSession, file: FilePlan) -> int:
    """Save the next version of a file: its old content, or the mark that hides it. Return the version number."""
    key = artifacts.file_key(session.realm, session.app_name, session.user_id, session.session_id, file.name)
    if file.outcome != FileOutcome.RESTORED or file.then is None:
        mark = VersionMetadata(
            Artifact.Holding.DATA,
            json.dumps(_TOMBSTONE),
            _UNTYPED,
            custom_metadata="{}",
            from_session=key.session_id,
        )
        return artifacts.save(key, mark, Payload(_NO_BYTES, 0, b"")).version
    # The lock keeps the row, and thus the file it refers to, until the new row refers to it too.
    source = _file_versions(session, file.name).select_for_update().defer(None).get(version=file.then)
    content = None if source.content is None else bytes(source.content)
    payload = Payload(source.sha256, source.size, content) if source.sha256 else None
    draft = VersionMetadata(
        Artifact.Holding(source.holding),
        source.part,
        source.mime_type,
        source.custom_metadata,
        key.session_id,
    )
    return artifacts.save(key, draft, payload).version


def _build_rewind_event(plan: RewindPlan, saved: dict[str, int], person: str) -> EventRecord:
    """Return the rewind event with the same fields as ADK's."""
    delta: dict[str, Any] = {
        key.key: None if key.then is None else json.loads(key.then.whole) for key in plan.keys
    }
    event = {
        "invocationId": f"e-{uuid.uuid4()}",
        "author": "user",
        "actions": {
            "artifactDelta": saved,
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
            "rewindBeforeInvocationId": plan.invocation_id,
        },
        "nodeInfo": {"path": ""},
        "id": str(uuid.uuid4()),
        "timestamp": time.time(),
    }
    writers = dict.fromkeys(delta, Writer("user", person, inferred=False))
    record = events.build_record(event, delta=delta, writers=writers, person=person)
    removed_keys = {key.key for key in plan.keys if key.then is None}
    notes = {key.key: key.then.note for key in plan.keys if key.then is not None}
    restored = [
        replace(write, value=replace(write.value, note=notes.get(write.key, write.value.note)))
        for write in record.writes
    ]
    return events.mark_removed(replace(record, writes=restored), removed_keys)
