"""Fork of a session at an event into a new session.

Copied are: events 1 … seq unchanged (ids, bodies, private parts), the ledger of the session's keys up to that event, so
that old values and writers are available in the fork, the state at the event, the rows of the session's artifact
versions (large content is shared by hash), and the recorder's `temp:` ghost keys and nested runs.

Sessions share the owners of `user:` and `app:` keys. A fork on live state reads the current values of its app and user.
A fork in its own realm has its own owners with the values at the event, and their ledger.

A long session is copied in many short transactions, so that appends do not wait (`session_copy`). Meanwhile the copy is
in a hidden realm; a final transaction publishes it. A failed copy is removed; if its process was killed, a server
removes it (`purge.remove_abandoned`).
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import QuerySet, Sum

from sessions_app.branches.session_copy import SessionCopy
from sessions_app.lookup import find_event, find_session, session_missing
from sessions_app.sessions import purge, storage_location
from sessions_app.store import realms, scopes
from sessions_app.store.database import change_notification
from sessions_app.store.database.json_sql import COUNTS_AS_ERROR
from sessions_app.store.errors import AlreadyExists, BadInput
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession, AppScope, Artifact, Event, Scope, UserScope
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions import lineage, writes
from sessions_app.store.sessions.event_rows import PREVIEW_LIMIT
from sessions_app.store.sessions.greetings import is_greeting
from sessions_app.store.sessions.lineage import Origin
from sessions_app.store.short_texts import truncate
from sessions_app.store.state import history

ORIGIN = "fork"

NAME_LIMIT = 80

TITLE_LIMIT = 500
"""Maximum length of a fork's title in characters."""

NOT_INDEXED = -1
"""`indexed_seq` of a published fork: it is indexed anew, because the index saw an incomplete copy."""

SAYS_SOMETHING = '{"text":"'
"""Prefix of summaries with text: `events.summarize` omits empty fields."""


@dataclass(frozen=True, slots=True)
class NewFork:
    """Options of a fork.

    Attributes:
        event_id, seq: the last event to copy; by default the newest.
        app_name, user_id: owner of the fork; None: same as the session's. The app need not exist here.
        session_id: id of the fork; blank: generated.
        title: None: a title that names the fork point.
        own_realm: give the fork its own shared state, with the values at the event.
    """

    event_id: str = ""
    seq: int | None = None
    app_name: str | None = None
    user_id: str | None = None
    session_id: str = ""
    title: str | None = None
    own_realm: bool = False


def fork(session_pk: int, options: NewFork) -> AgentSession:
    """Create a session that begins with the events of another one. The original does not change.

    Commits several short transactions. Do not call it inside a transaction: that would block other writers.

    Raises:
        SessionMissing: no such session.
        EventMissing: it has no such event.
        BadInput: the session has no events, an id cannot be stored, the title is too long, or another service owns the
            app's sessions.
        AlreadyExists: the id is taken by a session, or by artifacts of a deleted session.
    """
    source, event, key, new = _begin_fork(session_pk, options)
    try:
        copy = SessionCopy(source, new, event, lineage.ancestors(source))
        copy.session()
        if options.own_realm:
            copy.shared_state()
        # If both sessions share the owners of `user:` and `app:` keys, the events' versions remain valid.
        shares_owners = (source.realm, source.app_name, source.user_id) == key[:3]
        copy.events({} if options.own_realm or shares_owners else _current_versions(key))
        copy.nested_runs()
        copy.artifacts(with_users=options.own_realm)
        _derive_list_fields(new, source, event)
        _publish_fork(new, source, key)
    except BaseException:
        with suppress(DatabaseError):
            purge.remove_unfinished(new)
        raise
    return new


def fork_title(source: AgentSession, seq: int) -> str:
    """Return the default title of a fork."""
    return f"Fork at {seq} of {short_name(source)}"


def short_name(source: AgentSession) -> str:
    """Return the session's name, truncated."""
    name = source.name
    return truncate(name, NAME_LIMIT)


def _last_event(source: AgentSession, options: NewFork) -> Event:
    if source.last_seq == 0:
        raise BadInput(
            f"Session {source.session_id!r} has no events yet, so there is nothing to fork.",
            hint="Create a new session instead.",
        )
    newest = source.last_seq if options.seq is None else options.seq
    return find_event(source, event_id=options.event_id, seq=newest)


def _begin_fork(session_pk: int, options: NewFork) -> tuple[AgentSession, Event, SessionKey, AgentSession]:
    """Return the session, the last event to copy, the key of the fork, and the empty hidden fork."""
    with transaction.atomic():
        source = find_session(session_pk)
        event = _last_event(source, options)
        key = _new_key(source, options)
        title = fork_title(source, event.seq) if options.title is None else options.title
        if len(title) > TITLE_LIMIT:
            raise BadInput(
                f"The title is longer than {TITLE_LIMIT} characters.", hint="Choose a shorter one."
            )
        out_of_sight = key._replace(realm=f"{realms.COPYING}{uuid.uuid4()}")
        new = writes.create_session(out_of_sight, origin=ORIGIN, title=scopes.clean_text(title))
        _require_free_id(key)
    return source, event, key, new


def _new_key(source: AgentSession, options: NewFork) -> StorableKey:
    app_name = source.app_name if options.app_name is None else options.app_name
    if not options.own_realm:
        storage_location.refuse_new(app_name)
    key = SessionKey(
        realm=f"{realms.FORK}{uuid.uuid4()}" if options.own_realm else "",
        app_name=app_name,
        user_id=source.user_id if options.user_id is None else options.user_id,
        session_id=options.session_id.strip() or str(uuid.uuid4()),
    )
    return check_ids(key)


def _require_free_id(key: SessionKey) -> None:
    if AgentSession.objects.filter(**key._asdict()).exists():
        raise _id_taken_error(key)
    if Artifact.objects.filter(**key._asdict()).exists():
        raise AlreadyExists(
            f"A deleted session {key.session_id!r} has left artifacts, which would mix with the fork's.",
            hint="Choose another id, or omit it to generate one.",
        )


def _id_taken_error(key: SessionKey) -> AlreadyExists:
    return AlreadyExists(
        f"Session already exists: {key.session_id}",
        hint="Choose another id, or omit it to generate one.",
    )


def _current_versions(key: SessionKey) -> dict[str, int]:
    """Return the current versions of the new owners' shared state."""
    positions = history.owners_at(AgentSession(**key._asdict())).positions
    return {"user_version": positions.get(Scope.USER, 0), "app_version": positions.get(Scope.APP, 0)}


def _derive_list_fields(new: AgentSession, source: AgentSession, event: Event) -> None:
    """Set the fields of the new session that lists show, and its lineage."""
    new.forked_from, new.forked_seq = source, event.seq
    new.lineage = Origin(
        source.realm, source.app_name, source.user_id, source.session_id, event.seq, event.event_id
    ).text()
    new.last_seq = new.revision = event.seq
    if event.seq == source.last_seq:
        new.first_text, new.last_text = source.first_text, source.last_text
        new.error_count, new.total_tokens = source.error_count, source.total_tokens
        return
    events = Event.objects.filter(session=new)
    texts = events.filter(summary__startswith=SAYS_SOMETHING).values_list("summary", flat=True)
    new.first_text = _read_first_text(texts.filter(author="user").order_by("seq"))
    new.last_text = _preview_text(texts.order_by("-seq").first())
    new.error_count = events.filter(COUNTS_AS_ERROR).count()
    new.total_tokens = events.aggregate(total=Sum("total_tokens"))["total"] or 0


def _publish_fork(new: AgentSession, source: AgentSession, key: SessionKey) -> None:
    """Move a finished copy to its key, if the original session still exists."""
    with transaction.atomic():
        still = AgentSession.objects.select_for_update().filter(pk=source.pk).first()
        if still is None or still.realm.startswith(realms.PURGED):
            raise session_missing(source.pk)
        _require_free_id(key)
        moved: tuple[Any, ...] = (UserScope, AppScope, Artifact)
        for table in moved:
            table.objects.filter(realm=new.realm).update(realm=key.realm)
        new.realm, new.updated_at = key.realm, time.time()
        new.indexed_seq = new.problems_seq = NOT_INDEXED
        try:
            with transaction.atomic():
                new.save(force_update=True)
        except IntegrityError as error:
            raise _id_taken_error(key) from error
        change_notification.notify_after_commit()


def _read_first_text(messages: QuerySet[Event, str]) -> str:
    """Return the start of the first message that is more than a greeting, else of the first, as appending does."""
    first = ""
    for text in map(_preview_text, messages.iterator()):
        if text and not is_greeting(text):
            return text
        first = first or text
    return first


def _preview_text(summary: str | None) -> str:
    text = json.loads(summary)["text"] if summary else ""
    return " ".join(text.split())[:PREVIEW_LIMIT]
