"""Pauses of runs: calls of models and tools, their outcomes and writes of state that wait for a person's decision.

The row is the truth, as it is for runs: the runtime inserts it and waits for its decision, any web process shows it and
writes the decision, and the runtime deletes it and goes on. The first decision counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from django.db import transaction
from django.db.models import Exists, Min, OuterRef

from sessions_app.console.pause_points import REQUEST_KEY, may_pause
from sessions_app.presentation import visible_text
from sessions_app.store.database import change_notification
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import Run, RunPause
from sessions_app.store.scopes import clean_text, dumps

Kind = RunPause.Kind

IS_PAUSED = Exists(RunPause.objects.filter(run=OuterRef("pk"), run__status=Run.Status.RUNNING, decision=""))
"""Condition on a run: it waits for a decision."""

CONTINUE, STEP, STEP_OVER, ANSWER, FAIL = "continue", "step", "step_over", "answer", "fail"
"""Decisions on a pause: go on; go on and pause at the next call; the same, but not at calls of the agent that is called
now; answer in place of the call or of its error; answer with an error."""

ACTIONS_BY_KIND: dict[str, tuple[str, ...]] = {
    Kind.MODEL: (CONTINUE, STEP, ANSWER),
    Kind.TOOL: (CONTINUE, STEP, ANSWER, FAIL),
    Kind.RESULT: (CONTINUE, STEP),
    Kind.TOOL_ERROR: (CONTINUE, STEP, ANSWER),
    Kind.MODEL_ERROR: (CONTINUE, STEP, ANSWER),
    Kind.STATE: (CONTINUE, STEP),
}
"""Decisions that are possible, by kind of the pause. Before the call of an agent, `STEP_OVER` is, too."""

PLACES: dict[str, str] = {
    Kind.MODEL: "before",
    Kind.TOOL: "before",
    Kind.RESULT: "after",
    Kind.TOOL_ERROR: "at an error of",
    Kind.MODEL_ERROR: "at an error of",
    Kind.STATE: "at a write of",
}
"""Position of a pause relative to its target, by kind."""

MAX_CONTENT = 200_000
"""Most characters of a text that a person can edit at a pause."""


class PauseEnded(DevUIError):
    """The pause does not wait for a decision any more."""

    status = 409
    code = "pause_ended"


class PauseContent(TypedDict, total=False):
    """Content of a pause, without credentials. Values too large to be edited are cut.

    Attributes:
        args, schema: the arguments of a tool and their JSON schema; it is empty if they are not checked.
        system_instruction, contents: the request to a model, contents in ADK's JSON form.
        tools, schemas: names of the tools that the model can call, and the JSON schemas of their arguments by name;
            arguments of a tool without one are not checked.
        is_agent: the tool runs an agent.
        result: the result of a tool, as an object.
        error: type and message of an error.
        writes: values that are about to be written to state keys; long ones are cut.
        cut: the beginning of the JSON of arguments, a result or contents that are too large; then they are missing.
        state: the state at that time, with `temp:` keys; long values are cut.
    """

    args: dict[str, Any]
    schema: dict[str, Any]
    system_instruction: str
    contents: list[Any]
    tools: list[str]
    schemas: dict[str, dict[str, Any]]
    is_agent: bool
    result: dict[str, Any]
    error: str
    writes: dict[str, Any]
    cut: str
    state: dict[str, Any]


Interval = tuple[float, float]
"""Start and end, in seconds since the epoch."""

MAX_TIMES = 500
"""Intervals in which a run was paused that its row keeps, the newest."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision of a person on a pause.

    Attributes:
        action: one of those in `ACTIONS_BY_KIND`.
        person: name of the person; empty: unknown.
        args: the changed arguments of a tool; None: unchanged.
        system_instruction, contents: what is changed of the request to a model; None: unchanged.
        result: the changed result of a tool; None: unchanged.
        response: the answer in place of the call: the result of a tool, or the text of a model.
        call: the tool call in place of a model's answer: its `name` and `args`; None: `response` is the answer.
    """

    action: str
    person: str = ""
    args: dict[str, Any] | None = None
    system_instruction: str | None = None
    contents: list[Any] | None = None
    result: dict[str, Any] | None = None
    response: dict[str, Any] | str | None = None
    call: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OpenPause:
    """A pause that waits for a decision, as pages show it."""

    row: RunPause
    content: PauseContent

    @property
    def is_tool(self) -> bool:
        """Tell whether it is about the call of a tool."""
        return self.row.kind in (Kind.TOOL, Kind.RESULT, Kind.TOOL_ERROR)

    @property
    def where(self) -> str:
        """Position of the pause relative to its target, in words."""
        return PLACES[self.row.kind]

    @property
    def actions(self) -> tuple[str, ...]:
        """The decisions that are possible."""
        actions = ACTIONS_BY_KIND[self.row.kind]
        return (*actions, STEP_OVER) if self.content.get("is_agent") else actions

    @property
    def args_text(self) -> str:
        """The arguments as indented JSON; empty if they are cut."""
        return self._indented("args")

    @property
    def contents_text(self) -> str:
        """The contents of the request as indented JSON; empty if they are cut."""
        return self._indented("contents")

    @property
    def result_text(self) -> str:
        """The result of the tool as indented JSON; empty if it is cut."""
        return self._indented("result")

    def _indented(self, name: str) -> str:
        value = self.content.get(name)
        return "" if value is None else _indent(value)


def add_pause(
    run_id: str, kind: str, agent: str, target: str, content: PauseContent, began: float, limit_s: float
) -> int:
    """Insert a pause of a running run, which began at a time and may last so many seconds, and return its key.

    A repeated insert finds the row of the first, as the reply to that may have been lost.
    """
    with transaction.atomic():
        row, _ = RunPause.objects.get_or_create(
            run_id=run_id,
            kind=kind,
            agent=clean_text(agent),
            target=clean_text(target),
            created_at=began,
            defaults={"content": dumps(content), "expires_at": began + limit_s},
        )
        change_notification.notify_after_commit()
    return row.pk


def fetch_decision(pause_pk: int) -> Decision | None:
    """Return the decision on a pause; None if there is none yet."""
    row = RunPause.objects.filter(pk=pause_pk).exclude(decision="").values("decision", "decided_by").first()
    return Decision(**json.loads(row["decision"]), person=row["decided_by"]) if row else None


def expire_pause(pause_pk: int) -> bool:
    """Delete a pause unless somebody has decided, and tell whether it has ended without a decision.

    A repeated call tells the same.
    """
    with transaction.atomic():
        RunPause.objects.filter(pk=pause_pk, decision="").delete()
        change_notification.notify_after_commit()
    return not RunPause.objects.filter(pk=pause_pk).exists()


def delete_pause(run_id: str, pause_pk: int, paused_times: Sequence[Interval] = ()) -> None:
    """Delete a pause that has ended, and store when the run was paused so far."""
    with transaction.atomic():
        RunPause.objects.filter(pk=pause_pk).delete()
        if paused_times:
            total_s = sum(end - start for start, end in paused_times)
            _store_times(run_id, paused_times, total_s)
        change_notification.notify_after_commit()


def inherit_pause_points(session_pk: int, invocation_id: str) -> dict[str, Any]:
    """Return the part of a request with which the answer to an invocation pauses where its newest run does.

    It is empty if that does not pause.
    """
    runs = Run.objects.filter(session_id=session_pk, invocation_id=invocation_id)
    request = runs.order_by("-created_at", "-pk").values_list("request", flat=True).first() or ""
    return {REQUEST_KEY: json.loads(request)[REQUEST_KEY]} if may_pause(request) else {}


def end_run_pauses(run: Run) -> None:
    """Delete the pauses of a run that has ended: they lasted until then. `run.request` says whether it can have any."""
    if not may_pause(run.request):
        return
    began = RunPause.objects.filter(run=run).aggregate(began=Min("created_at"))["began"]
    if began is not None and run.finished_at is not None:
        known_times = json.loads(run.paused_times)
        # They began while an earlier pause was open: what both lasted is stored with that.
        began = max([began, *(end for _, end in known_times[-1:])])
        end = max(began, run.finished_at)
        _store_times(run.pk, [*known_times, (began, end)], run.paused_s + end - began)
        RunPause.objects.filter(run=run).delete()


def _store_times(run_id: str, times: Sequence[Interval], total_s: float) -> None:
    Run.objects.filter(pk=run_id).update(paused_s=total_s, paused_times=dumps(times[-MAX_TIMES:]))


def list_pause_keys(run: Run | None) -> list[int]:
    """Return the keys of the pauses that wait for a decision, oldest first. No query for a run that cannot pause."""
    if run is None or not may_pause(run.request):
        return []
    return list(RunPause.objects.filter(run=run, decision="").order_by("pk").values_list("pk", flat=True))


def list_open_pauses(run: Run | None) -> list[OpenPause]:
    """Return the pauses of a run that wait for a decision, oldest first. No query for a run that cannot pause."""
    if run is None or not may_pause(run.request):
        return []
    return [_parse_row(row) for row in RunPause.objects.filter(run=run, decision="").order_by("pk")]


def find_open_pause(run_id: str, pause_pk: int) -> OpenPause:
    """Return a pause of a run that waits for a decision.

    Raises:
        PauseEnded: somebody has decided, its time is over, or the run has ended.
    """
    row = RunPause.objects.filter(
        pk=pause_pk, run_id=run_id, run__status=Run.Status.RUNNING, decision=""
    ).first()
    if row is None:
        raise _pause_ended(run_id)
    return _parse_row(row)


def decide(run_id: str, pause_pk: int, values: Mapping[str, Any], person: str) -> None:
    """Store the decision on a pause: the fields of `Decision` without the person.

    Raises:
        PauseEnded: somebody has decided, its time is over, or the run has ended.
    """
    find_open_pause(run_id, pause_pk)
    with transaction.atomic():
        undecided = RunPause.objects.filter(pk=pause_pk, decision="")
        if not undecided.update(decision=dumps(values), decided_by=person):
            raise _pause_ended(run_id)
        change_notification.notify_after_commit()


def has_editable_length(value: Any) -> bool:
    """Tell whether a value is short enough to be edited as indented JSON, with the line breaks that browsers send."""
    text = visible_text.escape_json(_indent(value))
    return len(text) + text.count("\n") <= MAX_CONTENT


def _parse_row(row: RunPause) -> OpenPause:
    return OpenPause(row, json.loads(row.content))


def _pause_ended(run_id: str) -> PauseEnded:
    return PauseEnded(
        f"This pause of run {run_id} does not wait for a decision any more.",
        hint="Somebody has decided, its time is over, or the run has ended. The session shows which.",
    )


def _indent(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
