"""Forking a session at an event into a new one. A handful of statements copy it inside the database, row by row there.

What is taken over: events 1 … seq as they are (ids, bodies, private parts), the ledger of the session's keys up to
there, so every old value and its writer answer in the fork too, the state as it was, the versions of the session's
artifacts (rows: large content is one file by its hash, whoever refers to it), and the recorder's `temp:` ghosts.

`user:` and `app:` keys have owners that sessions share. A fork on live state reads them as they are now, those of the
app and user it is made for. One in a realm of its own has owners of its own, which hold what they held at the event,
with the ledger that the events taken over looked at.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Sum

from sessions_app import bell, history, keeping, lineage, realms, state, writes
from sessions_app.branches import files
from sessions_app.errors import AlreadyExists, BadInput
from sessions_app.found import find_event, find_session
from sessions_app.ids import SessionKey
from sessions_app.lineage import Ancestor, Origin
from sessions_app.models import (
    AgentSession,
    AppScope,
    AppState,
    Artifact,
    Cause,
    Event,
    Kind,
    Scope,
    SessionState,
    StateChange,
    TempWrite,
    UserScope,
    UserState,
)

ORIGIN = "fork"

NAME_LIMIT = 80

TITLE_LIMIT = 500
"""Longest title that a fork is given, in characters: every list of sessions shows it."""

CHUNK = 500

SAYS_SOMETHING = '{"text":"'
"""How a summary begins that has text: `wire.summarise` leaves out what is empty."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a fork should be.

    Attributes:
        event_id, seq: the last event to take over; neither: the newest.
        app_name, user_id: whose it will be; None: as the session's. The app need not be known here.
        session_id: blank: one is made.
        title: None: one that says where it was forked.
        own_realm: give it shared state of its own, as it was at the event.
    """

    event_id: str = ""
    seq: int | None = None
    app_name: str | None = None
    user_id: str | None = None
    session_id: str = ""
    title: str | None = None
    own_realm: bool = False


def fork(session_pk: int, wanted: Wanted) -> AgentSession:
    """Make a session that begins as another one did, up to an event. The other one stays as it is.

    Raises:
        SessionMissing: no such session.
        EventMissing: it has no such event.
        BadInput: it has no event at all, an id cannot be stored, the title is too long, or it would be a session
            of real life while agents keep theirs elsewhere.
        AlreadyExists: the id is taken, by a session or by artifacts that one has left behind.
    """
    with transaction.atomic():
        source = find_session(session_pk)
        event = _last_event(source, wanted)
        new = _create(source, event, wanted)
        with connection.cursor() as cursor:
            copy = _Copy(cursor, source, new, event, lineage.ancestors(source))
            copy.session()
            if wanted.own_realm:
                copy.shared_state()
            copy.events(versions_kept=wanted.own_realm or _shares_owners(source, new))
            copy.artifacts(with_users=wanted.own_realm)
        _derive(new, source, event)
        bell.ring_after_commit()
    return new


def title_of(source: AgentSession, seq: int) -> str:
    """Return the title of a fork that is given none."""
    name = source.title or source.first_text or source.session_id
    short = name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"
    return f"{short} · fork at {seq}"


def _last_event(source: AgentSession, wanted: Wanted) -> Event:
    if source.last_seq == 0:
        raise BadInput(
            f"Session {source.session_id!r} has no events yet, so there is nothing to fork.",
            hint="Create a new session instead.",
        )
    newest = source.last_seq if wanted.seq is None else wanted.seq
    return find_event(source, event_id=wanted.event_id, seq=newest)


def _create(source: AgentSession, event: Event, wanted: Wanted) -> AgentSession:
    if not wanted.own_realm:
        keeping.refuse_new()
    key = SessionKey(
        realm=f"{realms.FORK}{uuid.uuid4()}" if wanted.own_realm else "",
        app_name=source.app_name if wanted.app_name is None else wanted.app_name,
        user_id=source.user_id if wanted.user_id is None else wanted.user_id,
        session_id=wanted.session_id.strip() or str(uuid.uuid4()),
    )
    title = title_of(source, event.seq) if wanted.title is None else wanted.title
    if len(title) > TITLE_LIMIT:
        raise BadInput(f"The title is longer than {TITLE_LIMIT} characters.", hint="Choose a shorter one.")
    new = writes.create_session(key, origin=ORIGIN, title=state.clean_text(title))
    if files.artifacts_of(new).exists():
        raise AlreadyExists(
            f"A session {key.session_id!r} that is gone has left artifacts, which would mix with the fork's.",
            hint="Choose another id, or leave it out to have one made.",
        )
    return new


def _shares_owners(source: AgentSession, new: AgentSession) -> bool:
    """Tell whether both read the same `user:` and `app:` keys, so the versions that events saw mean the same."""
    return (source.realm, source.app_name, source.user_id) == (new.realm, new.app_name, new.user_id)


class _Copy:
    """The statements that copy a session up to an event."""

    def __init__(
        self,
        cursor: CursorWrapper,
        source: AgentSession,
        new: AgentSession,
        event: Event,
        ancestors: Sequence[Ancestor],
    ) -> None:
        self.cursor = cursor
        self.source = source
        self.new = new
        self.event = event
        self.ancestors = ancestors

    def session(self) -> None:
        """Copy the ledger of the session's own keys, its state and its ghosts."""
        up_to = [self.source.pk, self.event.seq]
        self._copy(
            StateChange,
            "scope = %s AND owner_id = %s AND position <= %s ORDER BY id",
            [str(Scope.SESSION), *up_to],
            owner_id=self.new.pk,
            session_id=self.new.pk,
        )
        self._copy(TempWrite, "session_id = %s AND seq <= %s ORDER BY id", up_to, session_id=self.new.pk)
        self._settle(SessionState, Scope.SESSION, self.new.pk, self.event.seq)

    def shared_state(self) -> None:
        """Give the new realm owners that hold what the shared scopes held at the event."""
        start, then = history.owners_at_start(self.source), history.owners_at(self.source, self.event)
        whose = {"realm": self.new.realm, "app_name": self.new.app_name}
        if Scope.USER in then.ids:
            owner = UserScope.objects.create(
                **whose, user_id=self.new.user_id, version=then.positions[Scope.USER]
            )
            self._copy_shared(Scope.USER, owner.pk, start, then)
            self._settle(UserState, Scope.USER, owner.pk, owner.version)
        if Scope.APP in then.ids:
            app = AppScope.objects.create(**whose, version=then.positions[Scope.APP])
            self._copy_shared(Scope.APP, app.pk, start, then)
            self._settle(AppState, Scope.APP, app.pk, app.version)

    def events(self, *, versions_kept: bool) -> None:
        """Copy the events. In front of other owners they all see the state that those have now."""
        seen: dict[str, Any] = {} if versions_kept else self._versions_now()
        self._copy(
            Event,
            "session_id = %s AND seq <= %s ORDER BY seq",
            [self.source.pk, self.event.seq],
            session_id=self.new.pk,
            **seen,
        )

    def artifacts(self, *, with_users: bool) -> None:
        """Copy the versions of the session's artifacts; into a realm of its own those of its user, too."""
        whose: dict[str, Any] = {
            "realm": self.new.realm,
            "app_name": self.new.app_name,
            "user_id": self.new.user_id,
        }
        own = files.rows_at(self.source, self.event)
        self._copy_artifacts(own, **whose, session_id=self.new.session_id, from_session=self.new.session_id)
        if with_users:
            users = Artifact.objects.filter(
                realm=self.source.realm,
                app_name=self.source.app_name,
                user_id=self.source.user_id,
                session_id="",
                created_at__lte=self.event.timestamp,
            )
            self._copy_artifacts(list(users.order_by("pk").values_list("pk", flat=True)), **whose)

    def _copy_artifacts(self, pks: list[int], **changed: Any) -> None:
        for start in range(0, len(pks), CHUNK):
            batch = pks[start : start + CHUNK]
            # The lock keeps the rows, and so the files they refer to, until the copies refer to them as well.
            list(Artifact.objects.select_for_update().filter(pk__in=batch).values_list("pk"))
            places = ", ".join(["%s"] * len(batch))
            self._copy(Artifact, f"id IN ({places}) ORDER BY id", batch, **changed)

    def _copy_shared(self, scope: Scope, owner_id: int, start: history.Owners, then: history.Owners) -> None:
        """Copy what the events looked at: each key's last write before them, as the fork's, and all that followed."""
        source, first, last = then.ids[scope], start.positions.get(scope, 0), then.positions[scope]
        which = f"id IN ({history.WRITES_AT}) AND removed = %(no)s ORDER BY position, id"
        given = {"scope": str(scope), "owner": source, "position": first, "no": False}
        self._copy(StateChange, which, given, owner_id=owner_id, cause=str(Cause.FORK), session_id=None)
        writer, values = self._writer()
        self._copy(
            StateChange,
            "scope = %(scope)s AND owner_id = %(owner)s AND position > %(after)s AND position <= %(upto)s ORDER BY id",
            {"scope": str(scope), "owner": source, "after": first, "upto": last, **values},
            raw={"session_id": writer},
            owner_id=owner_id,
        )

    def _writer(self) -> tuple[str, dict[str, Any]]:
        """Return SQL for the session that a copied row of shared state belongs to.

        That is the fork for what it has taken over, else none: other sessions tell of their own rows only.
        """
        values: dict[str, Any] = {"new": self.new.pk}
        taken = [Ancestor(self.source.pk, self.event.seq)]
        taken += [Ancestor(each.pk, min(each.last_seq, self.event.seq)) for each in self.ancestors]
        cases = []
        for number, each in enumerate(taken):
            values |= {f"pk{number}": each.pk, f"seq{number}": each.last_seq}
            cases.append(f"WHEN session_id = %(pk{number})s AND seq <= %(seq{number})s THEN %(new)s")
        return f"CASE {' '.join(cases)} ELSE NULL END", values

    def _settle(self, table: type[models.Model], scope: Scope, owner_id: int, position: int) -> None:
        """Write an owner's state from its ledger: the last write of each key."""
        target, ledger = table._meta.db_table, StateChange._meta.db_table
        columns = "owner_id, key, key_id, value, private, note, position"
        self.cursor.execute(
            f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {ledger}"  # noqa: S608 - our own tables
            f" WHERE id IN ({history.WRITES_AT}) AND removed = %(no)s ORDER BY position, id",
            {"scope": str(scope), "owner": owner_id, "position": position, "no": False},
        )

    def _versions_now(self) -> dict[str, int]:
        positions = history.owners_at(self.new).positions
        return {
            "user_version": positions.get(Scope.USER, 0),
            "app_version": positions.get(Scope.APP, 0),
        }

    def _copy(
        self,
        table: type[models.Model],
        which: str,
        given: Sequence[Any] | dict[str, Any],
        *,
        raw: dict[str, str] | None = None,
        **changed: Any,
    ) -> None:
        """Copy rows of a table inside the database, all columns but the key, some of them changed.

        Args:
            table: whose rows.
            which: SQL behind WHERE, with `given` for its parameters.
            given: a sequence, or named.
            raw: column -> SQL expression.
            changed: column -> value.
        """
        fields = table._meta.concrete_fields
        columns = [str(field.column) for field in fields if not field.primary_key]
        named = isinstance(given, dict)
        expressions, values = [], []
        for column in columns:
            if column in changed:
                expressions.append(f"%(set_{column})s" if named else "%s")
                values.append(changed[column])
            else:
                expressions.append((raw or {}).get(column, column))
        parameters: Any = [*values, *given]
        if isinstance(given, dict):
            parameters = {**given, **{f"set_{column}": value for column, value in changed.items()}}
        name = table._meta.db_table
        self.cursor.execute(
            f"INSERT INTO {name} ({', '.join(columns)})"  # noqa: S608 - our own tables and columns
            f" SELECT {', '.join(expressions)} FROM {name} WHERE {which}",
            parameters,
        )


def _derive(new: AgentSession, source: AgentSession, event: Event) -> None:
    """Write what lists show of the new session, and where it comes from."""
    new.forked_from, new.forked_seq = source, event.seq
    new.lineage = Origin(
        source.realm, source.app_name, source.user_id, source.session_id, event.seq, event.event_id
    ).text()
    new.last_seq = new.revision = event.seq
    if event.seq == source.last_seq:
        new.first_text, new.last_text = source.first_text, source.last_text
        new.error_count, new.total_tokens = source.error_count, source.total_tokens
    else:
        events = Event.objects.filter(session=new)
        texts = events.filter(summary__startswith=SAYS_SOMETHING).values_list("summary", flat=True)
        new.first_text = _preview(texts.filter(author="user").order_by("seq").first())
        new.last_text = _preview(texts.order_by("-seq").first())
        errors = events.filter(kind=Kind.ERROR).exclude(summary__contains='"error":{"code":"",')
        new.error_count = errors.count()
        new.total_tokens = events.aggregate(total=Sum("total_tokens"))["total"] or 0
    new.updated_at = time.time()
    new.save()


def _preview(summary: str | None) -> str:
    text = json.loads(summary)["text"] if summary else ""
    return " ".join(text.split())[: writes.PREVIEW_LIMIT]
