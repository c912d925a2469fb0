"""Rewinds: changes, what stays, and equality with ADK's own rewind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event as AdkEvent
from google.adk.models.llm_request import LlmRequest
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, DjangoSessionService
from sessions_app.branches import not_undone
from sessions_app.branches import rewind as rewinding
from sessions_app.branches.rewind_plan import FileOutcome, RewindPlan, StoredValue
from sessions_app.runs import lifecycle as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import (
    BadInput,
    EventMissing,
    InvocationMissing,
    SessionBusy,
    SessionMissing,
    StaleSession,
)
from sessions_app.store.events import EventKind
from sessions_app.store.events.superseded_events import find_superseded_ranges
from sessions_app.store.models import (
    AgentSession,
    Artifact,
    ChangeCause,
    Event,
    MemoryEntry,
    Scope,
    SessionState,
    StateChange,
)
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from tests.fake_models import ScriptedModel, call
from tests.sessions.branches.rows import tell_three_invocations
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


def state_of(story: Story) -> dict[str, Any]:
    return {row.key: json.loads(row.value) for row in SessionState.objects.filter(owner_id=story.pk)}


def plan(story: Story, invocation: str = "i2") -> RewindPlan:
    return rewinding.plan_rewind(story.session, invocation_id=invocation)


def test_rewind_restores_session_keys_and_removes_later_ones():
    story = tell_three_invocations()
    rewinding.rewind(story.pk, invocation_id="i2")
    assert state_of(story) == {"seed": 1, "rewritten": 5, "b": 1}
    state = history.state_at(story.session).merge_scopes()
    assert state == {
        "seed": 1,
        "rewritten": 5,
        "b": 1,
        "user:tier": "gold",
        "app:motto": "hi",
        "app:news": True,
    }


def test_rewind_appends_one_event_and_keeps_history():
    story = tell_three_invocations()
    _, appended, _ = rewinding.rewind(story.pk, invocation_id="i2")
    event = story.event(appended.seq)
    body = json.loads(event.data)
    assert appended.seq == story.session.last_seq == 9
    assert (event.kind, event.author, event.invocation_id[:2]) == (EventKind.CONTROL, "user", "e-")
    assert body["actions"] == {
        "artifactDelta": {},
        "requestedAuthConfigs": {},
        "requestedToolConfirmations": {},
        "rewindBeforeInvocationId": "i2",
        "stateDelta": {"b": 1, "c": None, "seed": 1},
    }
    assert history.state_at(story.session, story.event(8)).values(Scope.SESSION)["c"] == 9


def test_ledger_names_rewind_and_who_removed_a_key():
    story = tell_three_invocations()
    _, appended, _ = rewinding.rewind(story.pk, invocation_id="i2")
    changes = {row.key: row for row in StateChange.objects.filter(session_id=story.pk, seq=appended.seq)}
    assert {row.cause for row in changes.values()} == {ChangeCause.REWIND}
    assert changes["c"].removed
    assert changes["c"].value is None
    assert (changes["b"].value, changes["b"].removed) == ("1", False)


def test_the_fields_of_the_event_are_those_of_adks_own():
    story = tell_three_invocations()
    _, appended, _ = rewinding.rewind(story.pk, invocation_id="i2")
    parsed = AdkEvent.model_validate_json(story.event(appended.seq).data)
    own = AdkEvent(
        invocation_id=parsed.invocation_id, author="user", id=parsed.id, timestamp=parsed.timestamp
    )
    own.actions.rewind_before_invocation_id = "i2"
    own.actions.state_delta = {"b": 1, "c": None, "seed": 1}
    assert json.loads(own.model_dump_json(by_alias=True, exclude_none=True)) == json.loads(
        story.event(appended.seq).data
    )


def test_event_identifies_its_invocation():
    story = tell_three_invocations()
    assert rewinding.plan_rewind(story.session, event_id="e6").first.seq == 3


def test_rewound_events_are_marked():
    story = tell_three_invocations()
    _, appended, _ = rewinding.rewind(story.pk, event_id="e4")
    marks = find_superseded_ranges(story.session, 1)
    rewound = [seq for seq in range(1, 9) if marks.rewound_by(story.event(seq)) == appended.seq]
    assert rewound == [3, 4, 5, 6, 7, 8]


def test_the_dry_run_writes_nothing():
    story = tell_three_invocations()
    before = (story.session.revision, Event.objects.count(), StateChange.objects.count(), state_of(story))
    plan(story)
    assert (
        story.session.revision,
        Event.objects.count(),
        StateChange.objects.count(),
        state_of(story),
    ) == before


def test_dry_run_lists_changed_and_unchanged_keys():
    story = tell_three_invocations()
    rewind_plan = plan(story)
    keys = {key.key: (key.now and key.now.public, key.then and key.then.public) for key in rewind_plan.keys}
    assert keys == {"b": ("2", "1"), "c": ("9", None), "seed": ("2", "1")}
    assert (rewind_plan.events, rewind_plan.invocations, rewind_plan.first_message) == (6, 2, "two")
    shared = {
        key.name: (key.before and key.before.public, key.now and key.now.public)
        for key in rewind_plan.shared.first
    }
    assert shared == {"user:tier": ('"free"', '"gold"'), "app:news": (None, "true")}
    assert [(effect.tool, effect.args, effect.seq) for effect in rewind_plan.effects.first] == [
        ("book", {"city": "Paris"}, 4)
    ]


async def test_adks_own_rewind_is_a_rewind_in_the_ledger():
    story = await units_of_work.write(tell_three_invocations)
    runner = Runner(
        app=App(name="weather", root_agent=LlmAgent(name="weather", model="none")),
        session_service=DjangoSessionService(),
    )
    await runner.rewind_async(user_id="ann", session_id="s1", rewind_before_invocation_id="i2")
    changes = await units_of_work.read(lambda: list(StateChange.objects.filter(session_id=story.pk, seq=9)))
    assert {row.cause for row in changes} == {ChangeCause.REWIND}


def test_a_key_that_was_null_then_is_null_again():
    story = Story(initial={"n": None})
    story.asks("one")
    story.says("1", delta={"n": 3})
    rewinding.rewind(story.pk, invocation_id="i1")
    assert state_of(story) == {"n": None}


def test_a_key_that_was_removed_by_hand_comes_back():
    story = Story(initial={"n": 1})
    story.asks("one")
    writes.edit_state(story.key, {}, removed=["n"])
    assert state_of(story) == {}
    rewinding.rewind(story.pk, invocation_id="i1")
    assert state_of(story) == {"n": 1}


def test_credentials_are_restored_and_shown_redacted():
    secret = {"authType": "apiKey", "apiKey": "s3cret"}
    story = Story(initial={"cred": secret})
    story.asks("one")
    story.says("1", delta={"cred": None})
    rewind_plan = plan(story, "i1")
    row = SessionState.objects.filter(owner_id=story.pk)
    rewinding.rewind(story.pk, invocation_id="i1")
    restored = row.get(key="cred")
    assert json.loads(restored.private or "null") == secret
    assert "s3cret" not in restored.value
    assert rewind_plan.keys[0].then == StoredValue('{"authType":"apiKey"}', restored.private)


def test_restored_value_keeps_its_conversion_note():
    story = Story(initial={"raw": b"ab"})
    story.asks("one")
    story.says("1", delta={"raw": 1})
    rewinding.rewind(story.pk, invocation_id="i1")
    assert SessionState.objects.get(owner_id=story.pk).note == "bytes"


def test_rewind_is_undone_by_rewinding_further():
    story = tell_three_invocations()
    rewinding.rewind(story.pk, invocation_id="i3")
    rewinding.rewind(story.pk, invocation_id="i1")
    assert state_of(story) == {"seed": 1, "rewritten": 1}


def test_rewind_before_rewound_events_restores_that_state():
    story = tell_three_invocations()
    rewinding.rewind(story.pk, invocation_id="i2")
    rewinding.rewind(story.pk, invocation_id="i3")
    assert state_of(story) == {"seed": 1, "rewritten": 5, "b": 2, "c": 9}


def test_an_unknown_invocation_and_an_unknown_event_are_refused():
    story = tell_three_invocations()
    with pytest.raises(InvocationMissing, match="no invocation 'i9'"):
        rewinding.rewind(story.pk, invocation_id="i9")
    with pytest.raises(EventMissing, match="no event 'nobody'"):
        rewinding.rewind(story.pk, event_id="nobody")
    with pytest.raises(SessionMissing):
        rewinding.rewind(story.pk + 1, invocation_id="i1")


def test_rewind_to_event_without_invocation_is_refused():
    story = Story()
    story.invocation = ""
    story.asks("one")
    with pytest.raises(BadInput, match="has no invocation id"):
        rewinding.plan_rewind(story.session, event_id="e1")


def test_eval_attempt_is_read_only():
    story = Story(realm="eval/1")
    story.asks("one")
    with pytest.raises(BadInput, match="eval attempt"):
        rewinding.plan_rewind(story.session, event_id="e1")
    with pytest.raises(BadInput, match="eval attempt"):
        rewinding.rewind(story.pk, event_id="e1")


def test_a_session_that_runs_is_not_rewound():
    story = tell_three_invocations()
    run = runs.create_run(story.pk, {})
    with pytest.raises(SessionBusy, match=run.id):
        rewinding.rewind(story.pk, invocation_id="i2")
    assert story.session.last_seq == 8


def test_a_session_that_has_moved_on_since_the_plan_is_not_rewound():
    story = tell_three_invocations()
    agreed = plan(story)
    story.says("more")
    with pytest.raises(StaleSession):
        rewinding.rewind(story.pk, invocation_id="i2", revision=agreed.revision)
    rewinding.rewind(story.pk, invocation_id="i2", revision=story.session.revision)


def test_memory_added_since_is_reported():
    story = tell_three_invocations()
    shared = {
        "app_name": "weather",
        "user_id": "ann",
        "content": json.dumps({"parts": [{"text": "likes tea"}]}),
    }
    MemoryEntry.objects.create(**shared, session_id="s1", entry_id="e5", timestamp=story.event(5).timestamp)
    MemoryEntry.objects.create(**shared, session_id="s1", entry_id="e1", timestamp=story.event(1).timestamp)
    MemoryEntry.objects.create(**shared, session_id="other", entry_id="x", timestamp=story.event(8).timestamp)
    memory = plan(story).memory
    assert (memory.count, [entry.text for entry in memory.first]) == (1, ["likes tea"])


def test_long_lists_are_cut_and_counted():
    story = Story()
    for number in range(not_undone.MAX_LISTED + 7):
        story.calls("book", f"c{number}", number=number)
    effects = plan(story, "i1").effects
    assert (len(effects.first), effects.count, effects.more) == (
        not_undone.MAX_LISTED,
        not_undone.MAX_LISTED + 7,
        7,
    )


def test_the_number_of_queries_does_not_depend_on_the_length(django_assert_max_num_queries):
    story = Story(initial={"seed": 1})
    for number in range(120):
        story.calls("book", f"c{number}", number=number)
        story.answers("book", f"c{number}", delta={f"k{number}": number, f"user:u{number}": number})
    with django_assert_max_num_queries(20):
        plan(story, "i1")


class Office:
    """An agent that saves files and remembers in state, on given services. `asked` is what its model was sent."""

    def __init__(self, sessions: BaseSessionService, artifacts: BaseArtifactService) -> None:
        self.asked: list[list[str]] = []

        async def draw(tool_context: ToolContext, name: str, text: str) -> str:
            """Save a file."""
            await tool_context.save_artifact(name, types.Part(text=text))
            tool_context.state["drawn"] = text
            return "ok"

        def note(callback_context: Any, llm_request: LlmRequest) -> None:
            self.asked.append(
                [part.text or "call" for content in llm_request.contents for part in content.parts or []]
            )

        model = ScriptedModel.saying(
            call("draw", name="a.txt", text="A0"),
            "one",
            call("draw", name="a.txt", text="A1"),
            call("draw", name="b.txt", text="B0"),
            call("draw", name="user:u.txt", text="U0"),
            "two",
            "three",
        )
        agent = LlmAgent(name="office", model=model, tools=[draw], before_model_callback=note)
        self.runner = Runner(
            app=App(name="office", root_agent=agent),
            session_service=sessions,
            artifact_service=artifacts,
            memory_service=DjangoMemoryService(),
        )
        self.named = {"app_name": "office", "user_id": "ann", "session_id": "s1"}

    async def say(self, text: str) -> str:
        """Send a message and return the invocation's id."""
        message = types.Content(role="user", parts=[types.Part(text=text)])
        run = self.runner.run_async(user_id="ann", session_id="s1", new_message=message)
        events = [event async for event in run]
        return events[0].invocation_id

    async def files(self) -> dict[str, str | None]:
        service = self.runner.artifact_service
        assert service is not None
        values = {}
        for name in ("a.txt", "b.txt", "user:u.txt"):
            part = await service.load_artifact(**self.named, filename=name)
            values[name] = part.text if part else None
        return values

    async def tell(self) -> str:
        """Have two invocations, and return the id of the second."""
        await self.runner.session_service.create_session(**self.named, state={"seed": 1})
        await self.say("first")
        return await self.say("second")


async def session_pk() -> int:
    return (await units_of_work.read(AgentSession.objects.get)).pk


async def test_rewind_restores_session_artifacts_as_new_versions():
    office = Office(DjangoSessionService(), DjangoArtifactService())
    second = await office.tell()
    _, appended, _ = await units_of_work.write(rewinding.rewind, await session_pk(), invocation_id=second)
    assert await office.files() == {"a.txt": "A0", "b.txt": None, "user:u.txt": "U0"}
    event = await units_of_work.read(lambda: Event.objects.get(seq=appended.seq))
    assert json.loads(event.data)["actions"]["artifactDelta"] == {"a.txt": 2, "b.txt": 1}
    assert await office.runner.artifact_service.list_versions(**office.named, filename="a.txt") == [0, 1, 2]


async def test_the_dry_run_names_the_files_that_change_and_those_that_stay():
    office = Office(DjangoSessionService(), DjangoArtifactService())
    second = await office.tell()
    session = await units_of_work.read(AgentSession.objects.get)
    rewind_plan = await units_of_work.read(lambda: rewinding.plan_rewind(session, invocation_id=second))
    assert [(file.name, file.now, file.then, file.outcome) for file in rewind_plan.files] == [
        ("a.txt", 1, 0, FileOutcome.RESTORED),
        ("b.txt", 0, None, FileOutcome.HIDDEN),
    ]
    assert rewind_plan.user_files == ["user:u.txt"]


async def test_missing_old_version_hides_the_file_and_dry_run_says_so():
    office = Office(DjangoSessionService(), DjangoArtifactService())
    second = await office.tell()
    await units_of_work.write(lambda: Artifact.objects.filter(filename="a.txt", version=0).delete())
    plan_made, _, _ = await units_of_work.write(rewinding.rewind, await session_pk(), invocation_id=second)
    assert plan_made.files[0].outcome == FileOutcome.LOST
    assert (await office.files())["a.txt"] is None


async def test_files_in_another_service_are_unchanged_and_named():
    office = Office(DjangoSessionService(), InMemoryArtifactService())
    second = await office.tell()
    plan_made, appended, _ = await units_of_work.write(
        rewinding.rewind, await session_pk(), invocation_id=second
    )
    assert {file.outcome for file in plan_made.files} == {FileOutcome.ELSEWHERE}
    event = await units_of_work.read(lambda: Event.objects.get(seq=appended.seq))
    assert json.loads(event.data)["actions"]["artifactDelta"] == {}
    assert not await units_of_work.read(Artifact.objects.exists)


async def test_hidden_file_is_stored_like_by_adks_rewind():
    rows = []
    for ours in (True, False):
        office = Office(DjangoSessionService(), DjangoArtifactService())
        second = await office.tell()
        if ours:
            await units_of_work.write(rewinding.rewind, await session_pk(), invocation_id=second)
        else:
            await office.runner.rewind_async(
                user_id="ann", session_id="s1", rewind_before_invocation_id=second
            )
        stored = await units_of_work.read(lambda: Artifact.objects.get(filename="b.txt", version=1))
        rows.append(
            {
                field.attname: getattr(stored, field.attname)
                for field in Artifact._meta.concrete_fields
                if field.name not in {"id", "created_at", "content"}
            }
            | {"content": bytes(stored.content or b"-")}
        )
        await units_of_work.write(
            lambda: (AgentSession.objects.all().delete(), Artifact.objects.all().delete())
        )
    assert rows[0] == rows[1]


@pytest.mark.parametrize("ours", [True, False], ids=["DevUI's rewind", "ADK's rewind on our services"])
async def test_after_rewind_the_model_sees_the_same_as_after_adks(ours: bool):
    oracle = Office(InMemorySessionService(), InMemoryArtifactService())
    second = await oracle.tell()
    await oracle.runner.rewind_async(user_id="ann", session_id="s1", rewind_before_invocation_id=second)
    await oracle.say("again")

    office = Office(DjangoSessionService(), DjangoArtifactService())
    second = await office.tell()
    if ours:
        await units_of_work.write(rewinding.rewind, await session_pk(), invocation_id=second)
    else:
        await office.runner.rewind_async(user_id="ann", session_id="s1", rewind_before_invocation_id=second)
    await office.say("again")
    assert office.asked[-1] == oracle.asked[-1] == ["first", "call", "call", "one", "again"]
    assert await office.files() == await oracle.files()
