"""Page "Why this answer": instruction lines with their keys and writers, tool results, history kept and dropped."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import EventActions, EventCompaction
from google.genai import types

from devui.runtime.agent_description import describe
from sessions_app.adk import Recorder
from sessions_app.agents import cards
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event
from tests.fake_models import ScriptedModel, call
from tests.pages.html import Element, parse
from tests.sessions.build import APP, USER
from tests.timeline.story import Story

INSTRUCTION = "Be kind.\nThe city is {city}.\nThe tier is {user:tier?}."


def choose(city: str, tool_context) -> str:
    """Choose a city."""
    tool_context.state["city"] = city
    return f"chose {city}"


def overwrite_city(callback_context) -> None:
    """Set the city before the agent runs."""
    callback_context.state["city"] = "Bern"


async def declare(agent) -> None:
    """Store the agent's description, as its runtime does."""
    await units_of_work.write(cards.save_loaded, APP, "1", describe(agent, None, APP))


async def why(seq: int) -> Element:
    """Return the page of an event."""
    pk = await units_of_work.read(lambda: AgentSession.objects.get(session_id="s1").pk)
    response = await AsyncClient().get(f"/sessions/id/{pk}/events/{seq}/why/")
    assert response.status_code == HTTPStatus.OK, response.content
    return parse(response.content.decode())


async def last_seq() -> int:
    return await units_of_work.read(lambda: AgentSession.objects.get(session_id="s1").last_seq)


def key_rows(page: Element) -> list[str]:
    return [row.text for rows in page.all("ul", "why-keys") for row in rows.all("li")]


def section(page: Element, name: str) -> Element:
    return page.one("section", aria_labelledby=f"why-{name}")


@pytest.fixture
def story(db: None) -> Story:
    """An empty session."""
    return Story()


@pytest.fixture
async def overwritten(ask) -> int:
    """A session whose tool set a key that a callback then overwrote; the seq of the answer."""
    model = ScriptedModel.saying(call("choose", city="Rome"), "chosen", "Bern it is")
    agent = LlmAgent(name="ann", model=model, tools=[choose], instruction="Choose.")
    await ask(agent, "Rome please")
    agent.instruction, agent.before_agent_callback = INSTRUCTION, overwrite_city
    await declare(agent)
    await ask(agent, "which city?")
    return await last_seq()


async def test_line_names_placeholder_value_and_writer_of_its_key(overwritten):
    page = await why(overwritten)
    lines = page.one("ol", "why-lines").all("li")
    city = next(line for line in lines if "The city is Bern." in line.text)
    assert city.one("mark").text == "Bern"
    assert "{city}" in city.text
    assert city.one("code", "removed").text == '"Rome"'
    assert city.one("code", "added").text == '"Bern"'
    assert "callback overwrite_city" in city.one("span", "writer").text


async def test_writer_of_a_key_links_to_its_event(overwritten):
    page = await why(overwritten)
    writer = page.one("ol", "why-lines").one("span", "writer")
    seq = int(writer.one("a").attrs["href"].partition("seq=")[2])
    event = await units_of_work.read(lambda: Event.objects.get(seq=seq))
    assert "city" in event.decoded_summary["delta"]
    assert seq < overwritten


async def test_optional_key_that_was_not_set_is_said_to_be_missing(overwritten):
    rows = key_rows(await why(overwritten))
    assert any("{user:tier?}" in row and "not set" in row for row in rows)


async def test_tool_result_of_an_earlier_turn_links_to_its_event_and_call(overwritten):
    results = section(await why(overwritten), "results")
    [row] = results.all("li")
    assert "choose" in row.text
    assert "chose Rome" in row.text
    assert [link.attrs["href"].partition("seq=")[2] for link in row.all("a")] == ["3", "2"]


async def test_all_contents_have_their_events_and_nothing_was_dropped(overwritten):
    page = await why(overwritten)
    rows = section(page, "kept").all("li")
    assert [row.all("a")[0].text for row in rows] == ["event 1", "event 2", "event 3", "event 4", "event 5"]
    assert "0 events" in section(page, "dropped").one("h2").text


async def test_changed_instruction_is_explained_by_values_and_says_so(ask):
    async def instruct(context) -> str:
        return f"The house style is {context.state['style']}."

    def set_style(callback_context) -> None:
        callback_context.state["style"] = "short sentences"

    agent = LlmAgent(
        name="ann", model=ScriptedModel.saying("hi"), instruction=instruct, before_agent_callback=set_style
    )
    await declare(agent)
    await ask(agent)
    [row] = key_rows(await why(await last_seq()))
    assert row.startswith("style")
    assert "found by its value" in row
    assert "callback set_style" in row


async def test_value_that_the_key_did_not_have_is_marked(ask):
    def rewrite(callback_context, llm_request) -> None:
        llm_request.config.system_instruction = "The city is Oslo. Be brief."

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        instruction="The city is {city}. Be brief.",
        before_agent_callback=overwrite_city,
        before_model_callback=rewrite,
    )
    await declare(agent)
    await ask(agent)
    [row] = key_rows(await why(await last_seq()))
    assert "sent: another value" in row


async def test_text_of_another_agent_is_shown_as_quoted(ask):
    first = LlmAgent(name="bob", model=ScriptedModel.saying("I say tea"))
    second = LlmAgent(name="ann", model=ScriptedModel.saying("tea it is"))
    await ask(SequentialAgent(name="both", sub_agents=[first, second]))
    history = section(await why(await last_seq()), "kept")
    [row] = [row for row in history.all("li") if "other agent, quoted" in row.text]
    assert row.one("a").text == "event 2"
    assert row.one("bdi").text == "bob"
    assert "I say tea" in row.text


async def test_agent_without_history_drops_earlier_turns_with_the_reason(ask):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("one", "two"), include_contents="none")
    await declare(agent)
    await ask(agent, "first")
    await ask(agent, "second")
    [row] = section(await why(await last_seq()), "dropped").all("li")
    assert "event 1 to 2" in row.text
    assert 'include_contents="none"' in row.text


async def test_agent_without_history_drops_what_came_before_another_agent_with_the_reason(ask):
    first = LlmAgent(name="bob", model=ScriptedModel.saying("I say tea"))
    second = LlmAgent(name="ann", model=ScriptedModel.saying("tea it is"), include_contents="none")
    agent = SequentialAgent(name="both", sub_agents=[first, second])
    await declare(agent)
    await ask(agent, "which drink?")
    [row] = section(await why(await last_seq()), "dropped").all("li")
    assert "event 1" in row.text
    assert 'include_contents="none"' in row.text


async def test_content_removed_by_a_callback_has_no_recorded_reason(ask):
    def forget(callback_context, llm_request) -> None:
        llm_request.contents = llm_request.contents[-1:]

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("one", "two"), before_model_callback=forget)
    await ask(agent, "first")
    await ask(agent, "second")
    [row] = section(await why(await last_seq()), "dropped").all("li")
    assert "reason not recorded" in row.text


async def test_compacted_events_name_the_summary_that_replaced_them(ask, ours):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("one", "two"))
    await ask(agent, "first")
    stored = await ours.get_session(app_name=APP, user_id=USER, session_id="s1")
    summary = types.Content(role="model", parts=[types.Part(text="They said one.")])
    span = EventCompaction(
        start_timestamp=stored.events[0].timestamp,
        end_timestamp=stored.events[-1].timestamp,
        compacted_content=summary,
    )
    await ours.append_event(
        stored, AdkEvent(author="user", invocation_id="c", actions=EventActions(compaction=span))
    )
    await ask(agent, "second")
    page = await why(await last_seq())
    [row] = section(page, "dropped").all("li")
    assert "event 1 to 2" in row.text
    assert "summary in event 3" in row.text
    assert section(page, "kept").all("li")[0].all("span", "badge")[0].text == "summary"


async def test_answer_without_recorded_request_shows_what_would_be_sent(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        instruction=INSTRUCTION,
        before_agent_callback=overwrite_city,
    )
    await declare(agent)
    await ask(agent, plugins=[Recorder(keep_calls=False)])
    page = await why(await last_seq())
    assert "was not recorded" in page.one("main").text
    assert page.one("div", id="seen").attrs["hx-get"].endswith("/seen/")
    assert "As the agent declares it now" in section(page, "instruction").text
    assert any("{city}" in row for row in key_rows(page))
    assert not page.all("section", aria_labelledby="why-kept")


async def test_queries_do_not_grow_with_the_session(ask, django_assert_max_num_queries):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(*["yes"] * 12),
        instruction=INSTRUCTION,
        before_agent_callback=overwrite_city,
    )
    await declare(agent)
    for _ in range(12):
        await ask(agent)
    pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)

    def get() -> None:
        with django_assert_max_num_queries(22):
            Client().get(f"/sessions/id/{pk}/events/36/why/")

    await sync_to_async(get)()


def test_event_of_the_user_has_no_sources(story, get):
    story.asks("hello")
    page = get(f"/sessions/id/{story.pk}/events/1/why/")
    assert "No model wrote this event" in page.text


def test_unknown_event_is_refused(client, story):
    assert client.get(f"/sessions/id/{story.pk}/events/7/why/").status_code == HTTPStatus.NOT_FOUND


def test_inspector_offers_the_page_on_answers_only(story, get):
    story.asks("hello")
    seq = story.says("hi")
    answer = get(f"/sessions/id/{story.pk}/?seq={seq}").one("div", "event-actions")
    [link] = answer.all("a", aria_label="Why this answer")
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/events/{seq}/why/"
    assert "data-command" in link.attrs
    message = get(f"/sessions/id/{story.pk}/?seq=1").one("div", "event-actions")
    assert not message.all("a", aria_label="Why this answer")


def test_inspector_offers_the_page_on_errors(story, get):
    story.asks("hello")
    seq = story.add(errorCode="429", errorMessage="Too many requests")
    error = get(f"/sessions/id/{story.pk}/?seq={seq}").one("div", "event-actions")
    [link] = error.all("a", aria_label="Why this answer")
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/events/{seq}/why/"


def test_hostile_text_is_shown_as_text(story, get):
    seq = story.says("<script>alert(1)</script>‮")
    page = get(f"/sessions/id/{story.pk}/events/{seq}/why/")
    assert not page.one("main").all("script")
    assert "<script>alert(1)</script>" in page.text


async def test_instruction_beside_a_static_one_is_found_in_the_message_that_has_it(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        static_instruction="You are Ann.",
        instruction="The city is {city}.",
        before_agent_callback=overwrite_city,
    )
    await declare(agent)
    await ask(agent)
    page = await why(await last_seq())
    lines = page.one("ol", "why-lines").text
    assert "You are Ann." in lines
    assert "The city is Bern." in lines
    assert "{city}" in lines


async def test_braces_of_a_static_instruction_are_no_placeholder(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        static_instruction="Write {city} in braces.",
        instruction="Be kind.",
        before_agent_callback=overwrite_city,
    )
    await declare(agent)
    await ask(agent)
    page = await why(await last_seq())
    assert "Write {city} in braces." in page.one("ol", "why-lines").text
    assert not key_rows(page)


def write_long_notes(callback_context) -> None:
    """Fill two keys: one with many lines, one after it."""
    callback_context.state["notes"] = "\n".join(f"note {number:06}" for number in range(5_000))
    callback_context.state["city"] = "Bern"


async def test_long_instruction_is_explained_and_all_its_lines_are_counted(ask):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        instruction="{notes}\nThe city is {city}.",
        before_agent_callback=write_long_notes,
    )
    await declare(agent)
    await ask(agent)
    page = await why(await last_seq())
    notes, city = key_rows(page)
    assert "{notes}" in notes
    assert "{city}" in city
    shown = page.one("ol", "why-lines").all("span", "why-number")
    assert [number.text for number in shown[-2:]] == ["300", "5,001"]
    assert "4,702 more lines without a key not shown" in page.text
