"""Owners of the state that a batch of events writes, and the versions of these writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sessions_app.ids import SessionKey
from sessions_app.models import AgentSession, ImportSource, Scope
from sessions_app.sessions.ledger import OwnerPositions
from sessions_app.transfer.writers import import_rows
from sessions_app.transfer.writers.import_rows import KeyWrite, PendingEvent, StateOwner

_SHARED = (Scope.USER, Scope.APP)


class StateOwners:
    """Users and apps of a batch, locked in a fixed order: users, then apps, each sorted."""

    def __init__(self, source: ImportSource, arrivals: Sequence[PendingEvent]) -> None:
        """Lock the owners, and create missing ones that the batch writes."""
        self._source = source
        self._owners: dict[tuple[Scope, SessionKey], StateOwner | None] = {}
        written_owners = {
            (write.scope, _owner_key(write.scope, arrival.session))
            for arrival in arrivals
            for write in arrival.record.writes
        }
        for scope in _SHARED:
            for name in sorted({_owner_key(scope, arrival.session) for arrival in arrivals}):
                make = (scope, name) in written_owners
                self._owners[scope, name] = import_rows.lock_shared_owner(source, name, scope, make=make)
        self._written = written_owners

    def writes(self, arrival: PendingEvent) -> Iterator[KeyWrite]:
        """Yield the writes of an event. Each shared scope that it writes gets its next version."""
        session, record = arrival.session, arrival.record
        owners: dict[Scope, StateOwner] = {Scope.SESSION: import_rows.session_owner(session, arrival.seq)}
        for scope in _SHARED:
            owner = self._owners[scope, _owner_key(scope, session)]
            if owner and any(write.scope is scope for write in record.writes):
                owner.take_version()
                owners[scope] = owner
        for write in record.writes:
            yield import_rows.event_write(owners[write.scope], write, arrival)

    def positions(self, session: AgentSession) -> OwnerPositions:
        """Return the present versions of a session's app and user."""
        owners = {scope: self._owners[scope, _owner_key(scope, session)] for scope in _SHARED}
        versions = {scope: owner.version for scope, owner in owners.items() if owner}
        return OwnerPositions({Scope.SESSION: session.pk}, versions)

    def save_versions(self) -> None:
        """Save the versions of the written owners."""
        for (scope, name), owner in self._owners.items():
            if owner and (scope, name) in self._written:
                import_rows.save_versions(self._source, owner)


def _owner_key(scope: Scope, session: AgentSession) -> SessionKey:
    """Return the key of a session's user or app, with the other fields empty."""
    user = session.user_id if scope is Scope.USER else ""
    return SessionKey(session.realm, session.app_name, user, "")
