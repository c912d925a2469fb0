"""Spans and stages of runs as rows: their owners, their display, and the answers to ADK's front end."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from django.db import connection
from django.test import AsyncClient
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.tool_context import ToolContext
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from sessions_app.adk.spans import SpanKeeper
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, ModelCall, Span, Trace
from sessions_app.store.traces import outbox as outboxes
from sessions_app.store.traces.outbox import outbox
from sessions_app.traces import adk_spans, waterfall
from tests.fake_models import ScriptedModel, call
from tests.pages.html import parse, table
from tests.sessions.faults.lost_store import fail_with_lost_store
from tests.settable_clock import STEPS_S, Clock


def count(city: str, tool_context: ToolContext) -> str:
    """Count the people of a city."""
    return f"{city}: 3"


@pytest.fixture
def keeper() -> Iterator[None]:
    """Spans are kept while the test runs; a process has one provider of tracers for its whole life."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    span_keeper = SpanKeeper()
    trace.get_tracer_provider().add_span_processor(span_keeper)
    yield
    span_keeper.shutdown()


@pytest.fixture
async def ran(ask, keeper) -> int:
    """A turn with a tool. The session's key."""
    model = ScriptedModel.saying(call("count", city="Rome"), "three")
    await ask(LlmAgent(name="ann", model=model, tools=[count]), "how many?")
    await outbox().wait_written()
    return await units_of_work.read(lambda: AgentSession.objects.get().pk)


async def bars(pk: int) -> waterfall.Waterfall:
    def read() -> waterfall.Waterfall:
        session = AgentSession.objects.get(pk=pk)
        return waterfall.waterfall(session, Event.objects.filter(session=session).first().invocation_id)

    return await units_of_work.read(read)


async def test_spans_of_a_run_are_nested_with_their_events(ran):
    result = await bars(ran)
    assert [(bar.kind, bar.depth, bar.seq) for bar in result.bars] == [
        ("invocation", 0, None),
        ("agent", 1, None),
        ("model", 2, 2),
        ("tool", 2, 3),
        ("model", 2, 4),
    ]
    whole = result.bars[0]
    assert (whole.start, whole.width) == (0, waterfall.SCALE)
    assert all(0 <= bar.start <= bar.start + bar.width <= waterfall.SCALE for bar in result.bars)


async def test_bars_name_what_their_spans_measure(ran):
    labels = [bar.label for bar in (await bars(ran)).bars]
    model = labels[2]
    assert labels == ["run ann", "agent ann", model, "tool count", model]
    assert model.startswith("model ")


async def test_tool_span_opens_arguments_and_result(ran):
    response = await AsyncClient().get(f"/sessions/id/{ran}/events/3/trace/")
    [details] = [
        row
        for row in parse(response.content.decode()).all("li", "bar-row")
        if row.all("dl", css="span-arguments")
    ]
    assert "city Rome" in " ".join(details.one("dl", css="span-arguments").text.split())
    assert "Rome: 3" in details.one("p", css="span-result").text
    links = [link.attrs["href"] for link in details.one("details").all("a")]
    span_pk = await units_of_work.read(lambda: Span.objects.get(kind="tool").pk)
    assert links == ["?seq=2", "?seq=3", f"/traces/spans/{span_pk}/"]


async def test_exception_of_a_tool_is_an_event_of_its_span(ask, keeper):
    def fail(city: str) -> str:
        """Fail."""
        raise ValueError(f"nobody lives in {city}")

    model = ScriptedModel.saying(call("fail", city="Rome"))
    with pytest.raises(ValueError, match="nobody"):
        await ask(LlmAgent(name="ann", model=model, tools=[fail]), "how many?")
    await outbox().wait_written()
    span = await units_of_work.read(lambda: Span.objects.get(kind="tool"))
    attributes = json.loads(span.events)[0]["attributes"]
    assert attributes["exception.message"] == "nobody lives in Rome"
    assert json.loads(span.links) == []


async def test_span_whose_tool_is_named_by_a_list_has_no_arguments(ran):
    attributes = json.dumps({"gen_ai.tool.name": ["count"], "gen_ai.tool.call.id": [1]})
    await units_of_work.write(lambda: Span.objects.filter(kind="tool").update(attributes=attributes))
    assert [bar.exchange for bar in (await bars(ran)).bars if bar.kind == "tool"] == [None]


async def test_tools_called_in_parallel_keep_their_own_arguments(ask, keeper):
    calls = [call("count", city="Rome"), call("count", city="Oslo")]
    model = ScriptedModel.saying(calls, "three")
    await ask(LlmAgent(name="ann", model=model, tools=[count]), "how many?")
    await outbox().wait_written()
    result = await bars(await units_of_work.read(lambda: AgentSession.objects.get().pk))
    exchanges = [bar.exchange for bar in result.bars if bar.exchange]
    assert sorted((exchange.arguments["city"], "Oslo" in exchange.result) for exchange in exchanges) == [
        ("Oslo", True),
        ("Rome", False),
    ]


async def test_tools_that_fail_in_parallel_keep_their_own_arguments(ask, keeper):
    def fail(city: str) -> str:
        """Fail."""
        raise ValueError(f"no road to {city}")

    calls = [call("count", city="Bonn"), call("fail", city="Rome"), call("fail", city="Oslo")]
    model = ScriptedModel.saying(calls)
    with pytest.raises(ValueError, match="no road"):
        await ask(LlmAgent(name="ann", model=model, tools=[count, fail]))
    await outbox().wait_written()
    result = await bars(await units_of_work.read(lambda: AgentSession.objects.get().pk))
    cities = {
        bar.message: bar.exchange.arguments["city"] for bar in result.bars if bar.exchange and bar.failed
    }
    assert cities == {"ValueError: no road to Rome": "Rome", "ValueError: no road to Oslo": "Oslo"}


async def test_failed_tool_does_not_get_the_call_of_another_span(ask, keeper):
    def divide(number: int) -> str:
        """Fail for zero."""
        return str(1 / number)

    calls = [call("divide", number=1), call("divide", number=0)]
    with pytest.raises(ZeroDivisionError):
        await ask(LlmAgent(name="ann", model=ScriptedModel.saying(calls), tools=[divide]))
    await outbox().wait_written()
    result = await bars(await units_of_work.read(lambda: AgentSession.objects.get().pk))
    numbers = {bar.failed: bar.exchange.arguments["number"] for bar in result.bars if bar.exchange}
    assert numbers == {True: "0", False: "1"}


async def test_error_is_printed_at_the_span_that_raised_it(ask, keeper):
    def fail(city: str) -> str:
        """Fail."""
        raise ValueError(f"no road to {city}")

    model = ScriptedModel.saying(call("fail", city="<b>Rome</b>"))
    with pytest.raises(ValueError, match="no road"):
        await ask(LlmAgent(name="ann", model=model, tools=[fail]))
    await outbox().wait_written()
    pk = await units_of_work.read(lambda: Trace.objects.get().pk)
    page = parse((await AsyncClient().get(f"/traces/{pk}/")).content.decode())
    [message] = page.all("p", "bar-message")
    assert message.text == "ValueError: no road to <b>Rome</b>"
    [arguments] = page.all("dl", css="span-arguments")
    assert "<b>Rome</b>" in arguments.text


async def test_run_lists_its_stages_in_order(ran):
    result = await bars(ran)
    assert [(stage.label, stage.of) for stage in result.stages] == [
        ("session loaded", "ann"),
        ("message stored, context built", "ann"),
        ("agent started", "ann"),
        ("instruction, contents and tools prepared", "ann"),
        ("first part of the answer", "ann"),
        ("model answered", "ann"),
        ("tool started", "count"),
        ("tool ended", "count"),
        ("instruction, contents and tools prepared", "ann"),
        ("first part of the answer", "ann"),
        ("model answered", "ann"),
        ("agent ended", "ann"),
        ("ended", "ann"),
    ]
    assert result.trace.finished_at is not None
    assert all(stage.seconds >= 0 for stage in result.stages)


async def test_failed_run_names_its_stage(ask):
    with pytest.raises(ValueError, match="no words"):
        await ask(LlmAgent(name="ann", model=ScriptedModel.saying(ValueError("no words"))))
    stages = (await units_of_work.read(Trace.objects.get)).decoded_stages
    assert [(name, of) for name, _, of in stages][-2:] == [("model failed", "ann"), ("failed", "ValueError")]


async def test_run_without_spans_has_stages_only(ask):
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hi")))
    waterfall_bars = await bars(await units_of_work.read(lambda: AgentSession.objects.get().pk))
    assert waterfall_bars.bars == []
    assert waterfall_bars.seconds == waterfall_bars.stages[-1].since_start


async def test_model_requests_are_not_stored_twice(ran):
    rows = await units_of_work.read(lambda: list(Span.objects.values_list("attributes", flat=True)))
    assert len(rows) == 5
    assert not any("llm_request" in row for row in rows)


async def test_adks_front_end_gets_spans_in_its_format(ran):
    spans = (await AsyncClient().get("/dev/apps/weather/debug/trace/session/s1")).json()
    assert [span["name"].split()[0] for span in spans] == [
        "invoke_workflow",
        "invoke_agent",
        "generate_content",
        "execute_tool",
        "generate_content",
    ]
    ids = {span["span_id"] for span in spans}
    assert all(isinstance(span["span_id"], str) and span["parent_span_id"] in {None, *ids} for span in spans)
    data = json.loads(spans[2]["attributes"]["gcp.vertex.agent.llm_request"])
    assert data["contents"][0]["parts"] == [{"text": "how many?"}]
    assert [tool["name"] for tool in data["config"]["tools"][0]["function_declarations"]] == ["count"]
    answered = json.loads(spans[2]["attributes"]["gcp.vertex.agent.llm_response"])
    assert answered["content"]["parts"][0]["function_call"]["name"] == "count"


async def test_adks_front_end_gets_the_span_of_an_event(ran):
    event_id = await units_of_work.read(lambda: Event.objects.get(session=ran, seq=4).event_id)
    body = (await AsyncClient().get(f"/dev/apps/weather/debug/trace/{event_id}")).json()
    assert body["gcp.vertex.agent.event_id"] == event_id
    missing = await AsyncClient().get("/dev/apps/weather/debug/trace/none")
    assert (missing.status_code, missing.json()["detail"]) == (HTTPStatus.NOT_FOUND, "Trace not found")
    assert await units_of_work.read(adk_spans.session_trace, "weather", "no-session") == []


async def test_the_trace_beside_an_event_marks_its_span_and_leads_to_others(ran):
    response = await AsyncClient().get(f"/sessions/id/{ran}/events/3/trace/")
    page = parse(response.content.decode())
    [marked] = [row for row in page.all("li", "bar-row") if "aria-current" in row.attrs]
    assert marked.one("a", "bar-name").text == "tool count"
    attributes = marked.one("dl", css="span-attributes")
    names = [name.text for name in attributes.all("dt")]
    values = dict(zip(names, (value.text for value in attributes.all("dd")), strict=True))
    assert values["gen_ai.tool.name"] == "count"
    assert (values["name"], values["status"]) == ("execute_tool count", "no error")
    assert "gcp.vertex.agent.llm_request" not in values
    links = [link.attrs["href"] for link in page.all("a", "bar-name")]
    assert links == ["?seq=2&tab=trace", "?seq=3&tab=trace", "?seq=4&tab=trace"]


async def test_invocation_of_another_program_is_listed_with_its_model_calls(ran):
    page = parse((await AsyncClient().get("/runs/?app=weather")).content.decode())
    [row] = table(page)
    assert (row["Status"], row["User"], row["Source"], row["Calls"]) == ("done", "ann", "program", "2")
    pk = await units_of_work.read(lambda: Trace.objects.get().pk)
    response = await AsyncClient().get(f"/traces/{pk}/")
    assert len(parse(response.content.decode()).all("li", "bar-row")) == 5
    assert (await AsyncClient().get("/traces/999/")).status_code == HTTPStatus.NOT_FOUND


async def test_spans_beyond_the_limit_are_counted(ran):
    def add_spans() -> None:
        span = Span.objects.filter(session=ran).first()
        fields = {field.attname: getattr(span, field.attname) for field in Span._meta.concrete_fields}
        Span.objects.bulk_create(
            Span(**{**fields, "id": None, "span_id": f"{number:016x}"})
            for number in range(waterfall.MAX_SPANS)
        )

    await units_of_work.write(add_spans)
    page = parse((await AsyncClient().get(f"/sessions/id/{ran}/events/3/trace/")).content.decode())
    assert "5 more spans are not listed." in page.text


async def test_the_api_sends_a_trace_with_its_stages_and_spans(ran):
    listed = (await AsyncClient().get(f"/api/v1/traces?session={ran}")).json()["items"]
    whole = (await AsyncClient().get(f"/api/v1/traces/{listed[0]['id']}")).json()
    assert [span["kind"] for span in whole["spans"]] == ["invocation", "agent", "model", "tool", "model"]
    assert whole["stages"][-1]["name"] == "end"
    assert len(whole["trace_id"]) == 32


async def test_traces_and_spans_are_found_by_indexes(ran):
    """A list of traces walks the newest, and a span of an event is sought, however many there are."""

    def plans() -> list[str]:
        listed = waterfall.list_traces("weather").order_by("-started_at", "-pk")[:51]
        return [listed.explain(), Span.objects.filter(event_id="e").explain()]

    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL plans by the sizes of tables, and these are empty.")
    listed, sought = await units_of_work.read(plans)
    assert "USING INDEX trace_newest" in listed
    assert "TEMP B-TREE" not in listed
    assert "USING INDEX span_by_event" in sought


@pytest.mark.parametrize("before", [True, False], ids=["nothing was stored", "the answer was lost"])
async def test_each_record_of_a_run_is_stored_once_though_the_store_fails(
    ask, keeper, monkeypatch, caplog, before
):
    monkeypatch.setattr(outboxes, "_run_units", fail_with_lost_store(3, outboxes._run_units, before=before))
    model = ScriptedModel.saying(call("count", city="Rome"), "three")
    await ask(LlmAgent(name="ann", model=model, tools=[count]), "how many?")
    await outbox().wait_written()
    assert await units_of_work.read(Span.objects.count) == 5
    numbers = await units_of_work.read(lambda: sorted(ModelCall.objects.values_list("number", flat=True)))
    assert numbers == [1, 2]
    assert await units_of_work.read(Trace.objects.count) == 1
    assert "dropped" not in caplog.text


async def test_agent_seeding_random_numbers_keeps_all_its_spans(ask, keeper):
    def seed(city: str) -> str:
        """Seed the numbers of which ids of spans are made."""
        random.seed(1)
        return city

    answers = [call("seed", city="Rome"), call("seed", city="Oslo"), call("seed", city="Bonn"), "three"]
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying(*answers), tools=[seed]), "how many?")
    random.seed()
    await outbox().wait_written()
    spans = await units_of_work.read(lambda: list(Span.objects.all()))
    assert len(spans) == 9
    assert len({span.span_id for span in spans}) < len(spans)


@pytest.mark.parametrize("step", STEPS_S)
async def test_span_durations_ignore_clock_changes(ask, keeper, monkeypatch, tmp_path, step):
    clock, read_ns = Clock(monkeypatch, tmp_path / "shift"), time.time_ns
    monkeypatch.setattr("opentelemetry.sdk.trace.time_ns", lambda: read_ns() + round(clock.shift * 1e9))

    def set_clock(city: str) -> str:
        """Set the clock while a tool runs."""
        clock.step(step)
        return city

    model, began = ScriptedModel.saying(call("set_clock", city="Rome"), "three"), time.monotonic()
    await ask(LlmAgent(name="ann", model=model, tools=[set_clock]), "how many?")
    took = time.monotonic() - began
    await outbox().wait_written()

    spans = {span.span_id: span for span in await units_of_work.read(lambda: list(Span.objects.all()))}
    assert len(spans) == 5
    for span in spans.values():
        assert 0 <= span.ended_ns - span.started_ns < 1e9 * (took + 0.5)
        if above := spans.get(span.parent_id):
            assert above.started_ns - 1e8 <= span.started_ns <= span.ended_ns <= above.ended_ns + 1e8
