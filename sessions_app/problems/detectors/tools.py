"""Detectors of problems with tools: toolsets, calls, arguments and results."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sessions_app.problems.argument_schema import find_refusal
from sessions_app.problems.evidence import Evidence, ResultForm, SummarizedCall, ToolCall, ToolResult
from sessions_app.problems.failures import FailureSource, find_failures
from sessions_app.problems.registry import CALL_LABEL, Link, Problem, Severity, detector, quote
from sessions_app.store import scopes
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Trace
from sessions_app.store.short_texts import join_names

REPEATED_CALLS = 3
"""Number of equal calls in an invocation from which they are reported."""

CAUGHT = (ResultForm.RETRIED, ResultForm.ANSWERED)
"""Forms of results in place of an exception."""

EVENTS_LINKED = 4
TOOLS_NAMED = 12
FRAMEWORK_CALL = "adk_request_"
"""Prefix of the calls with which ADK itself asks a person."""

CallContent = tuple[str, str, str]
"""Agent, tool and arguments (JSON) of a call."""


@detector(
    "dead-toolset",
    "Toolset failed to load",
    severity=Severity.ERROR,
    remedy="Check that the toolset's server starts, answers and accepts the credentials. What a server's program"
    " printed is on the page of the log. The model ran without these tools; ADK only logs the failure.",
)
def dead_toolset(evidence: Evidence) -> Iterator[Problem]:
    """Find toolsets that raised an exception when their tools were listed."""
    for stage in evidence.stages:
        if stage.name == Trace.LOST_TOOLSET:
            agent = re.search(r" of agent (.+?): ", stage.of)
            yield Problem(
                f"{quote(stage.of, 360)}.".replace("..", "."),
                agent=agent[1] if agent else "",
                links=[Link("trace", evidence.trace_pk)],
            )


@detector(
    "undeclared-tool",
    "Called a tool that was not declared",
    severity=Severity.ERROR,
    remedy="Add the tool to the agent, or correct its name in the instruction. If a toolset failed to load, its tools"
    " are missing, too.",
)
def undeclared_tool(evidence: Evidence) -> Iterator[Problem]:
    """Find calls of tools that the model request did not declare."""
    reported: set[str] = set()
    for call in evidence.calls:
        request = evidence.find_request(call.event_id)
        if request is None or request.tools is None or call.name.startswith(FRAMEWORK_CALL):
            continue
        names = [tool.name for tool in request.tools if tool.name]
        if call.name not in names:
            reported.add(call.name)
            yield Problem(
                f"{call.agent} called {quote(call.name)}, but its request declares {_list_names(names)}.",
                call.seq,
                call.agent,
                [_call_link(call), Link("request", request.pk, f"model request {request.number}")],
            )
    for failure in find_failures(evidence):
        if failure.cause is ErrorCause.UNKNOWN_TOOL and not any(name in failure.message for name in reported):
            yield failure.problem(quote(failure.message))


@detector(
    "refused-arguments",
    "Arguments do not match the tool's schema",
    remedy="Describe the parameters more precisely in the tool's docstring or schema. The linked request has the schema"
    " that the model got.",
)
def refused_arguments(evidence: Evidence) -> Iterator[Problem]:
    """Find calls whose arguments do not match the declared schema."""
    for call in evidence.calls:
        request = evidence.find_request(call.event_id)
        tools = (request.tools or ()) if request else ()
        schema = next((tool.schema for tool in tools if tool.name == call.name), None)
        if request and schema and call.args is not None and (refusal := find_refusal(call.args, schema)):
            yield Problem(
                f"{quote(call.name)} was called with arguments that do not match its schema: {quote(refusal)}.",
                call.seq,
                call.agent,
                [_call_link(call), Link("request", request.pk, f"model request {request.number}")],
            )


@detector(
    "tool-error",
    "Tool failed",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Read the error at the linked event; the log line of an exception has its traceback. To let the model try"
    " again, return the error, or add ADK's ReflectAndRetryToolPlugin.",
)
def tool_error(evidence: Evidence) -> Iterator[Problem]:
    """Find results that report a failure, and exceptions of tools."""
    for failure in find_failures(evidence):
        is_of_tool = failure.source is FailureSource.TOOL and failure.form not in CAUGHT
        if is_of_tool and failure.cause is ErrorCause.OTHER:
            action = f"answered with {failure.form}" if failure.form else "raised an exception"
            yield failure.problem(f"{quote(failure.name)} {action}: {quote(failure.message, 300)}")


@detector(
    "swallowed-exception",
    "Exception of a tool was caught",
    repeats_error=True,
    remedy="A plug-in or callback answered the model in place of the tool, so the run does not fail. The log line has"
    " the traceback. Fix the tool; if the model's arguments are wrong, describe the parameters more precisely.",
)
def swallowed_exception(evidence: Evidence) -> Iterator[Problem]:
    """Find exceptions of tools that ADK's retry plug-in or a callback turned into results."""
    for failure in find_failures(evidence):
        if failure.form in CAUGHT and failure.cause is ErrorCause.OTHER:
            yield failure.problem(f"{quote(failure.name)} raised {quote(failure.message)}")


@detector(
    "repeated-call",
    "Same call repeated",
    remedy="Return a result that tells the model what to do next, or state in the instruction when to stop. A lower"
    " `max_llm_calls` in the RunConfig ends a loop earlier.",
)
def repeated_call(evidence: Evidence) -> Iterator[Problem]:
    """Find calls that an agent repeats with the same arguments within an invocation."""
    same: defaultdict[CallContent, list[ToolCall]] = defaultdict(list)
    for call in evidence.calls:
        if content := _call_content(call):
            same[content].append(call)
    for (agent, name, args), calls in same.items():
        if len(calls) >= REPEATED_CALLS:
            text = f"{agent} called {quote(name)} {len(calls)} times with the same arguments: {quote(args)}."
            yield Problem(text, 0, agent, [_call_link(call) for call in calls[:EVENTS_LINKED]])


@detector(
    "summarized-call",
    "Summarized call repeated",
    severity=Severity.NOTE,
    remedy="The requests since the compaction have only its summary. Let the summarizer's prompt keep"
    " such results, keep them in state, or compact less often.",
)
def summarized_call(evidence: Evidence) -> Iterator[Problem]:
    """Find calls that repeat a call of summarized events, and got the same result.

    A call that was repeated before its summary, or whose result has changed, is repeated for another reason.
    """
    earlier: defaultdict[CallContent, list[SummarizedCall]] = defaultdict(list)
    for candidate in evidence.summarized_calls:
        if content := _call_content(candidate.call):
            earlier[content].append(candidate)
    results = {result.call: result for result in evidence.results if result.call}
    for call in evidence.calls:
        content = _call_content(call)
        same = earlier.get(content, ()) if content else ()
        if not content or len(same) != 1 or call.seq < same[0].summary_seq:
            continue
        del earlier[content]  # from here on, requests hold the result of this call
        result = results.get(call)
        if result and result.response is not None and result.response == same[0].response:
            yield _summarized_call(content, same[0], call, result)


def _summarized_call(
    content: CallContent, earlier: SummarizedCall, call: ToolCall, result: ToolResult
) -> Problem:
    agent, name, args = content
    text = (
        f"{agent} called {quote(name)} again with {quote(args)} after a compaction summarized the first"
        " result, and got the same result."
    )
    links = [
        Link("event", earlier.call.seq, "earlier call"),
        Link("event", earlier.summary_seq, "summary"),
        _call_link(call),
    ]
    return Problem(text, result.seq, agent, links)


@detector(
    "unused-tool",
    "Tool never called",
    severity=Severity.NOTE,
    remedy="If a question needed the tool, state in the instruction or in the tool's description when to use it.",
)
def unused_tool(evidence: Evidence) -> Iterator[Problem]:
    """Find declared tools that no event of the session calls."""
    for agent, names in evidence.unused_tools.items():
        yield Problem(f"{agent} declares {_list_names(names)}, which this session never called.", agent=agent)


def _call_content(call: ToolCall) -> CallContent | None:
    """Return the agent, tool and arguments of a call; None for calls of ADK itself or unknown arguments."""
    if call.args is None or call.name.startswith(FRAMEWORK_CALL):
        return None
    return call.agent, call.name, scopes.dumps(dict(sorted(call.args.items())))


def _call_link(call: ToolCall) -> Link:
    return Link("event", call.seq, CALL_LABEL)


def _list_names(names: Sequence[str]) -> str:
    """Return the first names for a sentence, and the number of the others."""
    return join_names([quote(name, 60) for name in names], TOOLS_NAMED) or "no tool"
