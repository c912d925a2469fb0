"""Schemas of rewinds and forks. Times as in `schemas`."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from sessions_app.api.schemas import IS_SET, SessionOut, decode_json
from sessions_app.store.ids import StorableText


class RewindBody(Schema):
    """Invocation before which to rewind, by its id or by one of its events."""

    model_config = ConfigDict(extra="forbid")

    before_invocation: StorableText = Field(
        "", description="Id of the invocation to undo, with all later ones."
    )
    event_id: StorableText = Field("", description="Instead: id or number of an event of that invocation.")
    dry_run: bool = Field(False, description="Return the plan without carrying it out.")
    revision: int | None = Field(
        None, description="`revision` of the reviewed plan: 409 if the session has changed since."
    )

    @model_validator(mode="after")
    def _names_one_place(self) -> RewindBody:
        if bool(self.before_invocation) == bool(self.event_id):
            raise ValueError("Give either before_invocation or event_id.")
        return self


class Was(Schema):
    """A key's value without credentials; `exists` distinguishes null from a missing key."""

    exists: bool
    value: Any = None

    resolve_exists = staticmethod(lambda stored: stored is not None)
    resolve_value = staticmethod(lambda stored: stored and decode_json(stored.public))


class KeyPlanOut(Schema):
    """A session key whose value changes."""

    key: str
    now: Was
    then: Was


class FilePlanOut(Schema):
    """An artifact of the session that has changed since."""

    name: str
    now: int
    then: int | None
    outcome: str = Field(description="restored, hidden, lost (hidden: its old version is gone) or elsewhere.")


class SharedKeyOut(Schema):
    """A `user:` or `app:` key that was written since; it keeps its value."""

    key: str = Field(validation_alias="name")
    before: Was
    now: Was


class EffectOut(Schema):
    """A later tool call, whose external effects are not undone."""

    seq: int
    event_id: str
    tool: str
    args: dict[str, str] = Field(description="Arguments, each shortened.")


class RecalledOut(Schema):
    """A memory entry that was added since and is not removed."""

    entry_id: str
    time: float = Field(validation_alias="timestamp")
    text: str


class StaysOut(Schema):
    """Changes that a rewind does not undo. Lists are limited; counts are complete."""

    state: list[SharedKeyOut] = Field(validation_alias="shared.first")
    state_count: int = Field(validation_alias="shared.count")
    user_artifacts: list[str] = Field(validation_alias="user_files")
    memory: list[RecalledOut] = Field(validation_alias="memory.first")
    memory_count: int = Field(validation_alias="memory.count")
    effects: list[EffectOut] = Field(validation_alias="effects.first")
    effects_count: int = Field(validation_alias="effects.count")


class RewindOut(Schema):
    """A planned or completed rewind."""

    done: Annotated[bool, IS_SET] = Field(validation_alias="seq")
    session: int = Field(validation_alias="session_pk")
    revision: int = Field(description="Of the session the plan was made for.")
    before_invocation: str = Field(validation_alias="invocation_id")
    first_seq: int = Field(validation_alias="first.seq", description="First event that is undone.")
    events: int = Field(description="Number of undone events. They stay in the history.")
    invocations: int
    state: list[KeyPlanOut] = Field(validation_alias="keys")
    artifacts: list[FilePlanOut] = Field(validation_alias="files")
    stays: StaysOut
    seq: int | None = Field(description="The event that was appended.")
    event_id: str | None

    resolve_stays = staticmethod(lambda plan: plan)  # its fields


class ForkBody(Schema):
    """Options of a fork. All are optional."""

    model_config = ConfigDict(extra="forbid")

    event_id: StorableText = Field(
        "", description="Id or number of the last event to copy; default: the newest."
    )
    seq: int | None = Field(None, description="Sequence number of that event, instead of `event_id`.")
    app: str | None = Field(None, description="Default: the session's app. An unknown app is allowed.")
    user: str | None = Field(None, description="Default: the session's user.")
    id: str = Field("", description="Blank: an id is generated.")
    title: str | None = None
    own_realm: bool = Field(
        False,
        description="Give the fork its own copy of `user:` and `app:` state as of the event, instead of the live one.",
    )

    @model_validator(mode="after")
    def _names_one_event(self) -> ForkBody:
        if self.event_id and self.seq is not None:
            raise ValueError("Give either event_id or seq.")
        return self


class Lineage(Schema):
    """Origin of a session, and its forks."""

    forked_from: dict[str, Any] | None = Field(
        description="app, user, session, realm, seq and event_id; key: null if that session was deleted."
    )
    forks: list[SessionOut] = Field(description="The first 50, oldest first.")
    fork_count: int = Field(description="Number of all forks.")
