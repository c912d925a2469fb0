"""Detectors of problems with runs: limits, errors and processes that ended."""

from __future__ import annotations

from collections.abc import Iterator

from sessions_app.problems.evidence import Evidence
from sessions_app.problems.failures import FailureSource, find_failures
from sessions_app.problems.registry import Link, Problem, Severity, detector, quote
from sessions_app.store.events.error_causes import ErrorCause
from sessions_app.store.models import Run, Trace


@detector(
    "call-limit",
    "Reached max_llm_calls",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="Look at the last calls: an agent in a loop repeats the same ones. If the agent needs more calls, raise"
    " `max_llm_calls` in the RunConfig (Options at the message box).",
)
def call_limit(evidence: Evidence) -> Iterator[Problem]:
    """Find runs that reached the limit of model calls."""
    for failure in find_failures(evidence):
        if failure.cause is ErrorCause.CALL_LIMIT:
            yield failure.problem(quote(failure.message, 300))


@detector(
    "run-failed",
    "Run failed",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="The traceback at the run names the line. If the agent's code is right, send the message again.",
)
def run_failed(evidence: Evidence) -> Iterator[Problem]:
    """Find errors that ended a run and belong neither to a tool nor to a model."""
    for failure in find_failures(evidence):
        if failure.source is FailureSource.RUN and failure.cause is ErrorCause.OTHER:
            yield failure.problem(quote(failure.message, 360))


@detector(
    "stopped-sequence",
    "Agents left out after an answer",
    remedy="Give the App `resumability_config=ResumabilityConfig(is_resumable=True)`: only then does ADK continue the"
    " SequentialAgent or LoopAgent around the agent that asked. Or let the last agent of the sequence ask.",
)
def stopped_sequence(evidence: Evidence) -> Iterator[Problem]:
    """Find answers that continued the agent that had asked, but not the sequence or loop to which it belongs."""
    for stage in evidence.stages:
        if stage.name == Trace.SEQUENCE_STOPPED:
            links = [Link("event", event.seq, "answer") for event in evidence.events[:1]]
            text = f"After the answer, {quote(stage.of, 300)}: the App is not resumable."
            yield Problem(text, 0, "", [*links, Link("trace", evidence.trace_pk)])


@detector(
    "crashed-run",
    "Process ended during the run",
    severity=Severity.ERROR,
    repeats_error=True,
    remedy="The last output of the process, in the terminal, may show the reason. Send the message again: stored events"
    " are kept.",
)
def crashed_run(evidence: Evidence) -> Iterator[Problem]:
    """Find runs whose process died."""
    for run in evidence.runs:
        if run.status == Run.Status.CRASHED:
            text = quote(run.error, 300) or "The process of the run ended."
            yield Problem(text, 0, "", [Link("run", run.pk)])


@detector(
    "ended-run",
    "Run was stopped",
    severity=Severity.NOTE,
    repeats_error=True,
    remedy="Somebody cancelled the run, or the client of ADK's API disconnected. Stored events are kept.",
)
def ended_run(evidence: Evidence) -> Iterator[Problem]:
    """Find cancelled runs, and invocations of other programs that ended without notice."""
    cancelled = [run for run in evidence.runs if run.status == Run.Status.CANCELLED]
    for run in cancelled:
        yield Problem(quote(run.error) or "The run was cancelled.", 0, "", [Link("run", run.pk)])
    is_cut_off = bool(evidence.stages) and evidence.stages[-1].name == Trace.CUT_OFF
    if is_cut_off and not evidence.runs:
        yield Problem("The invocation was cut off.", 0, "", [Link("trace", evidence.trace_pk)])
