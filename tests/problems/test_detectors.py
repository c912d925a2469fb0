"""Each detector with a session of a real run that has the problem, and one that has not."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import RunConfig
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import errors, types

from sessions_app.problems.problem_queries import ShownProblem
from sessions_app.problems.registry import find_detector
from sessions_app.store.models import LogRecord
from tests.fake_models import ScriptedModel, call
from tests.problems.agent_runs import codes_of, converse, find_problems


class DeadToolset(BaseToolset):
    """A toolset whose server is not there."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        raise ConnectionError("Connection closed")


def look(city: str, days: int = 1) -> dict[str, Any]:
    """Look at the weather."""
    return {"weather": "sunny"}


def broken(city: str) -> dict[str, Any]:
    """Look at the weather."""
    raise ValueError(f"no station in {city}")


def test_codes_are_unique_and_detectors_have_remedies():
    from sessions_app.problems import all_detectors

    assert len(all_detectors()) >= 20
    assert all(each.title and each.remedy.endswith(".") for each in all_detectors().values())


async def test_healthy_session_has_no_problem(store):
    assert await codes_of(await converse([call("look", city="Rome")], "Sunny.", tools=[look])) == []


async def test_toolset_that_failed_to_load(store):
    session = await converse("Nothing to do.", tools=[DeadToolset()])
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity, problem.agent) == ("dead-toolset", "error", "agent")
    assert problem.text == "DeadToolset of agent agent: Connection closed."
    assert json.loads(problem.links)[0][0] == "trace"


async def test_toolset_that_fails_names_its_server(store):
    toolset = DeadToolset()
    toolset.connection_params = SimpleNamespace(server_params=SimpleNamespace(command="npx", args=["s3cret"]))
    [problem] = await find_problems(await converse("No weather today.", tools=[toolset]))
    assert problem.text == "DeadToolset (npx) of agent agent: Connection closed."


async def test_declared_tool_that_is_never_called_is_a_note(store):
    session = await converse("It is sunny.", tools=[look])
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity) == ("unused-tool", "note")
    assert "look" in problem.text
    await session.arefresh_from_db()
    assert session.problem_count == 0


async def test_call_of_a_tool_that_is_not_declared(store):
    session = await converse([call("book", city="Rome")], "Booked.", tools=[look])
    problems = {problem.code: problem for problem in await find_problems(session)}
    assert sorted(problems) == ["undeclared-tool", "unused-tool"]
    assert problems["undeclared-tool"].seq == 2
    assert "declares look" in problems["undeclared-tool"].text


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"city": 3}, "city is integer, not string"),
        ({"city": "Rome", "days": "two"}, "days is string, not integer"),
    ],
)
async def test_arguments_that_the_schema_refuses(store, args, reason):
    session = await converse([call("look", **args)], "Sunny.", tools=[look])
    refused = next(each for each in await find_problems(session) if each.code == "refused-arguments")
    assert reason in refused.text


async def test_missing_argument(store):
    session = await converse([call("look", town="Rome", date=1)], "Sunny.", tools=[look])
    refused, failed = await find_problems(session)
    assert (refused.code, failed.code) == ("refused-arguments", "tool-error")
    assert refused.text.endswith("schema: city is missing; town and date are not parameters.")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"error": "no such city"}, "answered with an error in its result: no such city"),
        ({"status": "error", "error_message": "no such city"}, "no such city"),
        ({"isError": True, "content": [{"type": "text", "text": "no such city"}]}, "isError: no such city"),
        (
            {
                "error": f"Tool lookup execution failed. {'Analyze this error. ' * 9}Status Code: 409, no such city"
            },
            "Status Code: 409, no such city",
        ),
    ],
)
async def test_result_that_reports_a_failure(store, result, message):
    def lookup(city: str) -> dict[str, Any]:
        """Look."""
        return result

    session = await converse([call("lookup", city="Rome")], "No.", tools=[lookup])
    [problem] = await find_problems(session)
    assert (problem.code, problem.seq) == ("tool-error", 3)
    assert message in problem.text


async def test_exception_of_a_tool_is_one_problem(store):
    session = await converse([call("broken", city="Rome")], "No.", tools=[broken])
    [problem] = await find_problems(session)
    assert problem.code == "tool-error"
    assert problem.text.startswith("broken raised an exception: ValueError")


async def test_exception_that_the_retry_plugin_caught(store):
    session = await converse(
        [call("broken", city="Rome")], "No.", tools=[broken], plugins=[ReflectAndRetryToolPlugin()]
    )
    [problem] = await find_problems(session)
    assert problem.code == "swallowed-exception"
    assert "ValueError: no station in Rome" in problem.text


async def test_exception_that_a_callback_turned_into_an_answer(store):
    def answer_instead(**_: Any) -> dict[str, Any]:
        return {"weather": "sunny"}

    session = await converse(
        [call("broken", city="Rome")], "Sunny.", tools=[broken], on_tool_error_callback=answer_instead
    )
    [problem] = await find_problems(session)
    assert (problem.code, problem.seq) == ("swallowed-exception", 2)
    assert problem.text == "broken raised ValueError: no station in Rome"
    assert [kind for kind, _, _ in json.loads(problem.links)] == ["event", "log"]
    assert not ShownProblem(problem).repeats_error  # no event shows the exception


async def test_exceptions_link_to_the_log_record_with_their_traceback(store):
    for plugins in [[], [ReflectAndRetryToolPlugin()]]:
        session = await converse([call("broken", city="Rome")], "No.", tools=[broken], plugins=plugins)
        [problem] = await find_problems(session)
        [pk] = [target for kind, target, _ in json.loads(problem.links) if kind == "log"]
        record = await LogRecord.objects.aget(pk=pk)
        assert "ValueError: no station in Rome" in record.message
        assert "in broken" in record.message
        await session.adelete()


async def test_logged_and_printed_errors(store):
    def check(city: str) -> str:
        """Check."""
        for _ in range(3):
            logging.getLogger("shop.stock").error("no stock in %s", city)
        print("ERROR: no price in", city)
        logging.getLogger("shop.stock").warning("late")
        return "ok"

    session = await converse([call("check", city="Rome")], "Done.", tools=[check])
    problems = await find_problems(session)
    assert [(each.code, each.severity, each.seq) for each in problems] == [("logged-error", "warning", 2)] * 2
    assert [each.text for each in problems] == [
        "shop.stock logged (3 times): no stock in Rome",
        "The agent’s code printed: ERROR: no price in Rome",
    ]
    assert [kind for kind, _, _ in json.loads(problems[0].links)] == ["log", "event"]


async def test_logged_exception_names_its_message_and_its_error(store):
    def check(city: str) -> str:
        """Check."""
        try:
            return str(float(city))
        except ValueError:
            logging.getLogger("shop.stock").exception("no price in %s", city)
            return "unknown"

    [problem] = await find_problems(await converse([call("check", city="Rome")], "Done.", tools=[check]))
    assert (
        problem.text
        == "shop.stock logged: no price in Rome: ValueError: could not convert string to float: 'Rome'"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("401 UNAUTHENTICATED. API key not valid."), "auth-error"),
        (RuntimeError("429 RESOURCE_EXHAUSTED. You exceeded your current quota"), "quota-error"),
        (TimeoutError("The read operation timed out"), "timeout"),
        (RuntimeError("500 INTERNAL"), "model-error"),
    ],
)
async def test_error_of_a_model_has_one_cause(store, error, code):
    session = await converse(error)
    [problem] = await find_problems(session)
    assert (problem.code, problem.agent) == (code, "agent")
    assert "request" in [kind for kind, _, _ in json.loads(problem.links)]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("HTTP status 401 Unauthorized", "auth-error"),
        ("Too Many Requests", "quota-error"),
        ("connection timed out", "timeout"),
        ("Room 401 is taken", "tool-error"),
        ("429 rooms are free", "tool-error"),
    ],
)
async def test_error_of_a_tool_has_the_cause_that_its_text_states(store, message, code):
    def book(city: str) -> dict[str, Any]:
        """Book."""
        return {"error": message}

    assert await codes_of(await converse([call("book", city="Rome")], "No.", tools=[book])) == [code]


class SlowService(httpx.PoolTimeout):
    """A time-out whose name and text state nothing."""


class Declined(Exception):
    """An exception with a status, as clients of HTTP APIs raise."""

    def __init__(self, status_code: int) -> None:
        super().__init__("declined")
        self.status_code = status_code


class ProtocolError(Exception):
    """An exception of MCP's SDK (`McpError`), which has its code in an object."""

    def __init__(self, code: int) -> None:
        super().__init__("declined")
        self.error = types.JobError(code=code)


def http_error(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://shop.example/")
    return httpx.HTTPStatusError("declined", request=request, response=httpx.Response(status))


def wrapped(error: Exception) -> Exception:
    try:
        raise RuntimeError("the shop is closed") from ExceptionGroup("several", [ValueError("a"), error])
    except RuntimeError as outer:
        return outer


EXCEPTIONS = [
    (errors.ClientError(401, {"error": {"message": "declined"}}), "auth-error"),
    (errors.ClientError(403, {"error": {"message": "declined"}}), "auth-error"),
    (errors.ClientError(429, {"error": {"message": "declined"}}), "quota-error"),
    (errors.ServerError(504, {"error": {"message": "declined"}}), "timeout"),
    (SlowService("declined"), "timeout"),
    (SlowService(""), "timeout"),
    (TimeoutError(), "timeout"),
    (Declined(429), "quota-error"),
    (http_error(403), "auth-error"),
    (ProtocolError(408), "timeout"),
    (wrapped(SlowService("declined")), "timeout"),
    (wrapped(Declined(401)), "auth-error"),
]


@pytest.mark.parametrize(("error", "code"), EXCEPTIONS)
async def test_exception_of_a_model_has_the_cause_that_its_type_shows(store, error, code):
    assert await codes_of(await converse(error)) == [code]


@pytest.mark.parametrize(
    ("plugins", "error", "code"),
    [
        *(([], error, code) for error, code in EXCEPTIONS),
        *(([ReflectAndRetryToolPlugin], error, code) for error, code in EXCEPTIONS[::2]),
    ],
)
async def test_exception_of_a_tool_has_the_cause_that_its_type_shows(store, error, code, plugins):
    def book(city: str) -> dict[str, Any]:
        """Book."""
        raise error

    tools, turns = [book], ([call("book", city="Rome")], "No.")
    assert await codes_of(await converse(*turns, tools=tools, plugins=[each() for each in plugins])) == [code]


@pytest.mark.parametrize("error", [Declined(404), ValueError("room 401"), wrapped(KeyError("city"))])
async def test_exception_without_a_known_cause_is_an_error_of_its_tool(store, error):
    def book(city: str) -> dict[str, Any]:
        """Book."""
        raise error

    assert await codes_of(await converse([call("book", city="Rome")], "No.", tools=[book])) == ["tool-error"]


async def test_limit_of_model_calls(store):
    turns = [[call("look", city=f"Rome {number}")] for number in range(4)]
    session = await converse(*turns, tools=[look], run_config=RunConfig(max_llm_calls=2))
    assert await codes_of(session) == ["call-limit"]


async def test_same_call_again_and_again(store):
    turns = [[call("look", city="Rome")] for _ in range(3)]
    session = await converse(*turns, "Sunny.", tools=[look])
    [problem] = await find_problems(session)
    assert problem.code == "repeated-call"
    assert 'look 3 times with the same arguments: {"city":"Rome"}' in problem.text
    assert [target for _, target, _ in json.loads(problem.links)] == [2, 4, 6]


async def test_two_equal_calls_are_no_problem(store):
    turns = [[call("look", city="Rome")] for _ in range(2)]
    assert await codes_of(await converse(*turns, "Sunny.", tools=[look])) == []


async def test_state_changed_without_an_event(store):
    def remember(tool_context: ToolContext) -> str:
        """Remember."""
        tool_context._invocation_context.session.state["cart"] = ["apple"]
        return "done"

    session = await converse([call("remember")], "Done.", tools=[remember])
    [problem] = await find_problems(session)
    assert problem.code == "untracked-state"
    assert problem.text.startswith("cart was changed without an event")


async def test_key_that_two_agents_write_is_a_note(store):
    agents = [
        LlmAgent(name=name, model=ScriptedModel.saying(text), output_key="result")
        for name, text in [("researcher", "12 %"), ("checker", "ok"), ("echo", "ok")]
    ]
    session = await converse(root=SequentialAgent(name="team", sub_agents=agents))
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity, problem.seq) == ("overwritten-key", "note", 3)
    assert problem.text == "checker replaced the value of result that researcher wrote."
    assert [target for _, target, _ in json.loads(problem.links)] == [2, 3]


async def test_missing_instruction_key(store):
    [problem] = await find_problems(await converse("Hi.", instruction="You serve {customer}."))
    assert problem.code == "missing-key"
    assert problem.text.startswith("customer has no value")


async def test_remedy_for_literal_braces_names_their_escape(store):
    [problem] = await find_problems(await converse("Hi.", instruction="Answer as {{literal}}."))
    assert problem.code == "missing-key"
    assert r"write `\{`" in find_detector("missing-key").remedy


async def test_escaped_braces_in_an_instruction_are_no_problem(store):
    assert await find_problems(await converse("Hi.", instruction=r"Answer as \{{literal}}.")) == []


async def test_temp_key_of_an_earlier_invocation(store):
    def set_temp(tool_context: ToolContext) -> str:
        """Set it."""
        tool_context.state["temp:draft"] = "a"
        return "done"

    def read_temp(tool_context: ToolContext) -> str:
        """Read it."""
        return str(tool_context.state["temp:draft"])

    session = await converse(
        [call("set_temp")], "Done.", [call("read_temp")], tools=[set_temp, read_temp], messages=["one", "two"]
    )
    [problem] = await find_problems(session)
    assert problem.code == "temp-read-later"
    assert problem.text.startswith("temp:draft has no value")


async def test_memory_search_without_a_result(store):
    session = await converse([call("load_memory", query="birthday")], "No.", tools=[load_memory_tool])
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity) == ("nothing-remembered", "note")
    assert "“birthday”" in problem.text


class ModelOf(ScriptedModel):
    """Gives whole responses."""

    async def generate_content_async(self, llm_request, stream=False):
        """Yield the next response."""
        turn = self.turns[self._said]
        self._said += 1
        yield turn


def respond(text: str = "", reason: str = "STOP", cached: int = 0, **fields: Any) -> LlmResponse:
    content = types.Content(role="model", parts=[types.Part(text=text)]) if text else None
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=5000, candidates_token_count=5, cached_content_token_count=cached
    )
    return LlmResponse(
        content=content, finish_reason=types.FinishReason(reason), usage_metadata=usage, **fields
    )


@pytest.mark.parametrize(
    ("reason", "code"),
    [("SAFETY", "safety-block"), ("MAX_TOKENS", "cut-answer"), ("MALFORMED_FUNCTION_CALL", "finish-reason")],
)
@pytest.mark.parametrize("text", ["An answer", ""])
async def test_unusual_finish_reason(store, reason, code, text):
    fields = {} if text else {"error_code": reason, "error_message": "why"}
    model = ModelOf(turns=[respond(text, reason, **fields)])
    session = await converse(
        model=model, generate_content_config=types.GenerateContentConfig(max_output_tokens=64)
    )
    [problem] = await find_problems(session)
    assert (problem.code, problem.seq) == (code, 2)
    assert (reason in problem.text) is (code != "cut-answer")
    assert ("max_output_tokens = 64" in problem.text) is (code == "cut-answer")


async def test_changed_instruction_loses_the_cache(store):
    times = iter(range(9))
    model = ModelOf(turns=[respond("a", cached=4000), respond("b")])
    session = await converse(
        model=model, instruction=lambda context: f"It is {next(times)}.", messages=["one", "two"]
    )
    [problem] = await find_problems(session)
    assert problem.code == "lost-cache"
    assert (
        problem.text
        == "agent had 4,000 cached tokens, and none in the next request: the instruction changed."
    )


async def test_changed_history_loses_the_cache(store):
    def forget_first(callback_context: Any, llm_request: Any) -> None:
        if len(llm_request.contents) > 2:
            del llm_request.contents[0]

    model = ModelOf(turns=[respond("a", cached=4000), respond("b")])
    session = await converse(
        model=model, instruction="Be brief.", messages=["one", "two"], before_model_callback=forget_first
    )
    [problem] = await find_problems(session)
    assert (
        problem.text
        == "agent had 4,000 cached tokens, and none in the next request: content 1 of the conversation changed."
    )


async def test_cache_lost_without_a_change_is_no_problem(store):
    model = ModelOf(turns=[respond("a", cached=4000), respond("b")])
    assert await codes_of(await converse(model=model, instruction="Be brief.", messages=["one", "two"])) == []


def compacting_every_invocation() -> EventsCompactionConfig:
    """Return ADK's compaction with a summary that names no temperature."""
    summarizer = LlmEventSummarizer(llm=ScriptedModel.saying(*["They spoke of Rome."] * 3))
    return EventsCompactionConfig(summarizer=summarizer, compaction_interval=1, overlap_size=0)


async def test_call_that_asks_again_for_what_a_compaction_summarized(store):
    session = await converse(
        *([call("look", city="Rome")], "Sunny.", [call("look", city="Rome")], "Still sunny."),
        tools=[look],
        messages=["Rome?", "And what did you say of Rome?"],
        compaction=compacting_every_invocation(),
    )
    [problem] = await find_problems(session)
    assert (problem.code, problem.severity) == ("summarized-call", "note")
    kinds = [await session.events.aget(seq=target) for _, target, _ in json.loads(problem.links)]
    assert '"compaction"' in kinds[1].data
    assert [each.decoded_summary["calls"][0]["name"] for each in (kinds[0], kinds[2])] == ["look", "look"]


async def test_repeated_call_without_compaction_asks_for_nothing_lost(store):
    session = await converse(
        *([call("look", city="Rome")], "Sunny.", [call("look", city="Rome")], "Still sunny."),
        tools=[look],
        messages=["Rome?", "And now?"],
    )
    assert await codes_of(session) == []


async def test_tool_whose_result_changed_is_asked_again_after_a_compaction(store):
    temperatures = iter((20, 21))

    def measure(city: str) -> dict[str, Any]:
        """Measure the temperature."""
        return {"temperature": next(temperatures)}

    session = await converse(
        *([call("measure", city="Rome")], "20.", [call("measure", city="Rome")], "21."),
        tools=[measure],
        messages=["How warm is it?", "And now?"],
        compaction=compacting_every_invocation(),
    )
    assert await session.events.filter(data__contains='"compaction"').aexists()
    assert await codes_of(session) == []
