"""Schemas of rewinds and forks. Times as in `schemas`."""

from __future__ import annotations

import json
from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from sessions_app.api.schemas import RowSchema, SessionOut
from sessions_app.branches.rewind_plan import RewindPlan, StoredValue
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

    @classmethod
    def of(cls, text: StoredValue | None) -> Was:
        """Return the schema of a stored value."""
        return cls(exists=False) if text is None else cls(exists=True, value=json.loads(text.public))


class KeyPlanOut(Schema):
    """A session key whose value changes."""

    key: str
    now: Was
    then: Was


class FilePlanOut(RowSchema):
    """An artifact of the session that has changed since."""

    name: str
    now: int
    then: int | None
    outcome: str = Field(description="restored, hidden, lost (hidden: its old version is gone) or elsewhere.")


class SharedKeyOut(Schema):
    """A `user:` or `app:` key that was written since; it keeps its value."""

    key: str
    before: Was
    now: Was


class EffectOut(RowSchema):
    """A later tool call, whose external effects are not undone."""

    seq: int
    event_id: str
    tool: str
    args: dict[str, str] = Field(description="Arguments, each shortened.")


class RecalledOut(Schema):
    """A memory entry that was added since and is not removed."""

    entry_id: str
    time: float
    text: str


class StaysOut(Schema):
    """Changes that a rewind does not undo. Lists are limited; counts are complete."""

    state: list[SharedKeyOut]
    state_count: int
    user_artifacts: list[str]
    memory: list[RecalledOut]
    memory_count: int
    effects: list[EffectOut]
    effects_count: int


class RewindOut(RowSchema):
    """A planned or completed rewind."""

    done: bool
    session: int
    revision: int = Field(description="Of the session the plan was made for.")
    before_invocation: str
    first_seq: int = Field(description="First event that is undone.")
    events: int = Field(description="Number of undone events. They stay in the history.")
    invocations: int
    state: list[KeyPlanOut]
    artifacts: list[FilePlanOut]
    stays: StaysOut
    seq: int | None = Field(description="The event that was appended.")
    event_id: str | None

    @classmethod
    def of(cls, plan: RewindPlan, seq: int | None = None, event_id: str | None = None) -> RewindOut:
        """Return the schema of a plan and, if carried out, of the appended event."""
        return cls.from_row(
            plan,
            done=seq is not None,
            seq=seq,
            event_id=event_id,
            session=plan.session_pk,
            before_invocation=plan.invocation_id,
            first_seq=plan.first.seq,
            state=[KeyPlanOut(key=key.key, now=Was.of(key.now), then=Was.of(key.then)) for key in plan.keys],
            artifacts=[FilePlanOut.from_row(file) for file in plan.files],
            stays=StaysOut(
                state=[
                    SharedKeyOut(key=key.name, before=Was.of(key.before), now=Was.of(key.now))
                    for key in plan.shared.first
                ],
                state_count=plan.shared.count,
                user_artifacts=plan.user_files,
                memory=[
                    RecalledOut(entry_id=each.entry_id, time=each.timestamp, text=each.text)
                    for each in plan.memory.first
                ],
                memory_count=plan.memory.count,
                effects=[EffectOut.from_row(each) for each in plan.effects.first],
                effects_count=plan.effects.count,
            ),
        )


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


class Lineage(Schema):
    """Origin of a session, and its forks."""

    forked_from: dict[str, Any] | None = Field(
        description="app, user, session, realm, seq and event_id; key: null if that session was deleted."
    )
    forks: list[SessionOut]
