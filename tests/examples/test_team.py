"""The team: transfer, sequence, parallel branches, a loop that escalates, and a checkpoint."""

from __future__ import annotations

from tests.examples.conftest import Chats, calls, texts

DONE = ["planner", "research", "review", "publisher"]


async def test_a_report_passes_through_every_agent_in_order(chats: Chats) -> None:
    chat = await chats("team")
    events = await chat.say("Write a report on tea")
    assert texts(events)[-1] == "# Tea\n\nTea was first drunk in China. Today there are 3 billion cups a day."
    speakers = list(dict.fromkeys(event.author for event in events))
    pipeline = ["planner", "historian", "analyst", "research", "drafter", "critic", "review", "publisher"]
    assert speakers == ["coordinator", *pipeline]


async def test_research_runs_in_two_branches(chats: Chats) -> None:
    chat = await chats("team")
    events = await chat.say("Write a report on tea")
    branches = {event.author: event.branch for event in events}
    assert branches["historian"] == "research.historian"
    assert branches["analyst"] == "research.analyst"


async def test_the_loop_ends_when_the_critic_escalates_over_the_second_draft(chats: Chats) -> None:
    chat = await chats("team")
    events = await chat.say("Write a report on tea")
    review = [event for event in events if event.author in ("drafter", "critic")]
    assert [event.author for event in review] == ["drafter", "critic", "drafter", "critic", "critic"]
    assert [bool(event.actions.escalate) for event in review] == [False] * 4 + [True]
    assert texts(review)[1] == "Add a figure."


async def test_every_step_leaves_its_result_and_a_checkpoint_in_the_state(chats: Chats) -> None:
    chat = await chats("team")
    events = await chat.say("Write a report on bread")
    state = await chat.state()
    assert state["checkpoint"] == {"done": DONE, "stop_after": ""}
    assert state["report"].startswith("# Bread")
    assert (state["history"], state["number"]) == (
        "Bread was baked in Egypt by 3000 BC",
        "100 million tonnes a year",
    )
    assert state["user:reports"] == 1
    notes = [
        event.actions.state_delta["checkpoint"]["done"]
        for event in events
        if "checkpoint" in event.actions.state_delta
    ]
    assert notes == [DONE[:steps] for steps in range(5)]


async def test_paused_report_resumes_from_its_checkpoint(chats: Chats) -> None:
    chat = await chats("team")
    await chat.say("Write a report on chess, only the plan")
    paused = await chat.state()
    assert paused["checkpoint"] == {"done": ["planner"], "stop_after": "planner"}
    assert "report" not in paused

    events = await chat.say("Continue")
    assert texts(events, thought=True) == ["planner: kept from the checkpoint."]
    state = await chat.state()
    assert state["plan"] == paused["plan"]
    assert state["checkpoint"]["done"] == DONE
    assert state["report"].startswith("# Chess")


async def test_second_report_does_not_inherit_feedback(chats: Chats) -> None:
    chat = await chats("team")
    await chat.say("Write a report on tea")
    events = await chat.say("Write a report on bread")
    assert [event.author for event in events].count("drafter") == 2
    assert (await chat.state())["user:reports"] == 2


async def test_continue_without_report_explains_itself(chats: Chats) -> None:
    chat = await chats("team")
    assert texts(await chat.say("Continue")) == ["There is no unfinished report."]
    await chat.say("Write a report on tea")
    assert texts(await chat.say("Continue")) == ["There is no unfinished report."]


async def test_translator_keeps_conversation_and_hands_back_other_tasks(chats: Chats) -> None:
    chat = await chats("team")
    events = await chat.say("Translate good morning into German")
    assert events[1].actions.transfer_to_agent == "translator"
    assert (events[-1].author, texts(events)) == ("translator", ["Guten Morgen"])
    events = await chat.say("Translate thank you into Korean")
    assert ([event.author for event in events], texts(events)) == (["translator"], ["감사합니다"])
    events = await chat.say("Hello")
    assert calls(events) == [("transfer_to_agent", {"agent_name": "coordinator"})]
    assert events[-1].author == "coordinator"
