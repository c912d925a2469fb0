"""What DevUI's own API sends and takes of rewinds, forks and comparisons. Times as in `schemas`."""

from __future__ import annotations

import json
from typing import Any

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from sessions_app.api.schemas import SessionOut
from sessions_app.branches.rewind_plan import RewindPlan, StoredValue
from sessions_app.ids import StorableText


class RewindBody(Schema):
    """Where to rewind to: before an invocation, which any of its events names too."""

    model_config = ConfigDict(extra="forbid")

    before_invocation: StorableText = Field(
        "", description="Id of the invocation that is taken back, with all after it."
    )
    event_id: StorableText = Field("", description="Instead: id or number of an event of that invocation.")
    dry_run: bool = Field(False, description="Only say what would change.")
    revision: int | None = Field(
        None, description="`revision` of the plan agreed to: when the session has moved on since, 409."
    )

    @model_validator(mode="after")
    def _names_one_place(self) -> RewindBody:
        if bool(self.before_invocation) == bool(self.event_id):
            raise ValueError("Give either before_invocation or event_id.")
        return self


class Was(Schema):
    """A key's value, credentials left out; `exists` tells null from a key that does not exist."""

    exists: bool
    value: Any = None

    @classmethod
    def of(cls, text: StoredValue | None) -> Was:
        """Return what is told of a stored value."""
        return cls(exists=False) if text is None else cls(exists=True, value=json.loads(text.public))


class KeyPlanOut(Schema):
    """A session key that gets another value."""

    key: str
    now: Was
    then: Was


class FilePlanOut(Schema):
    """An artifact of the session that has changed since."""

    name: str
    now: int
    then: int | None
    fate: str = Field(description="restored, hidden, lost (hidden: its old version is gone) or elsewhere.")


class SharedKeyOut(Schema):
    """A `user:` or `app:` key that was written since and stays as it is."""

    key: str
    before: Was
    now: Was


class EffectOut(Schema):
    """A tool call since: what it did outside is not undone."""

    seq: int
    event_id: str
    tool: str
    args: dict[str, str] = Field(description="Each cut to its beginning.")


class RecalledOut(Schema):
    """A memory entry added since; it stays."""

    entry_id: str
    time: float
    text: str


class DifferenceOut(Schema):
    """A key that ADK's own rewind would leave otherwise."""

    key: str
    here: Was
    adk: Was


class StaysOut(Schema):
    """What a rewind does not undo. Lists are cut; the counts are not."""

    state: list[SharedKeyOut]
    state_count: int
    user_artifacts: list[str]
    memory: list[RecalledOut]
    memory_count: int
    effects: list[EffectOut]
    effects_count: int


class RewindOut(Schema):
    """A rewind, planned or done."""

    done: bool
    session: int
    revision: int = Field(description="Of the session the plan was made for.")
    before_invocation: str
    first_seq: int = Field(description="The first event that is taken back.")
    events: int = Field(description="How many are taken back. They stay in the history.")
    invocations: int
    state: list[KeyPlanOut]
    artifacts: list[FilePlanOut]
    stays: StaysOut
    adk_differs: list[DifferenceOut]
    seq: int | None = Field(description="The event that was appended.")
    event_id: str | None

    @classmethod
    def of(cls, plan: RewindPlan, seq: int | None = None, event_id: str | None = None) -> RewindOut:
        """Return what is told of a plan, and of the event by which it was done."""
        return cls(
            done=seq is not None,
            seq=seq,
            event_id=event_id,
            session=plan.session_pk,
            revision=plan.revision,
            before_invocation=plan.invocation_id,
            first_seq=plan.first.seq,
            events=plan.events,
            invocations=plan.invocations,
            state=[KeyPlanOut(key=key.key, now=Was.of(key.now), then=Was.of(key.then)) for key in plan.keys],
            artifacts=[
                FilePlanOut(name=file.name, now=file.now, then=file.then, fate=file.fate)
                for file in plan.files
            ],
            stays=StaysOut(
                state=[
                    SharedKeyOut(key=key.name, before=Was.of(key.before), now=Was.of(key.now))
                    for key in plan.shared.shown
                ],
                state_count=plan.shared.count,
                user_artifacts=plan.user_files,
                memory=[
                    RecalledOut(entry_id=each.entry_id, time=each.timestamp, text=each.text)
                    for each in plan.memory.shown
                ],
                memory_count=plan.memory.count,
                effects=[
                    EffectOut(seq=each.seq, event_id=each.event_id, tool=each.tool, args=each.args)
                    for each in plan.effects.shown
                ],
                effects_count=plan.effects.count,
            ),
            adk_differs=[
                DifferenceOut(key=each.key, here=Was.of(each.here), adk=Was.of(each.adk))
                for each in plan.differences
            ],
        )


class ForkBody(Schema):
    """What a fork should be. All may be left out."""

    model_config = ConfigDict(extra="forbid")

    event_id: StorableText = Field(
        "", description="Id or number of the last event to take over; default: the newest."
    )
    seq: int | None = Field(None, description="Instead of its id: its place.")
    app: str | None = Field(None, description="Default: the session's. It need not be known here.")
    user: str | None = Field(None, description="Default: the session's.")
    id: str = Field("", description="Blank: one is made.")
    title: str | None = None
    own_realm: bool = Field(
        False,
        description="Give it `user:` and `app:` state of its own, as it was at the event; else it is live.",
    )


class Lineage(Schema):
    """Where a session comes from, and its forks."""

    forked_from: dict[str, Any] | None = Field(
        description="app, user, session, realm, seq and event_id; key: null when that session is gone."
    )
    forks: list[SessionOut]


class BriefEvent(Schema):
    """An event in short; its body has its own address."""

    seq: int
    event_id: str
    kind: str
    author: str
    time: float
    summary: dict[str, Any] = Field(description="Bounded: text, calls, results, delta (keys), …")


class TurnOut(Schema):
    """Consecutive events of an invocation in each session; empty where there is no such turn."""

    left: list[BriefEvent]
    right: list[BriefEvent]


class KeyPairOut(Schema):
    """A key that has not the same value in both."""

    key: str
    left: Was
    right: Was


class Comparison(Schema):
    """Two sessions from their common events on."""

    left: SessionOut
    right: SessionOut
    common: int = Field(description="How many first events they share.")
    turns: list[TurnOut]
    left_after: int = Field(description="Pass these two to go on.")
    right_after: int
    more: bool
    state: list[KeyPairOut] = Field(description="Keys that differ, at `left_at` and `right_at`.")
    state_same: int
