"""Questions of agents: long-running calls without an answer.

A call is open until the user sends a function response of its id (ADK's rule,
`google/adk/events/_interrupts.py`); an interim response of the tool itself does not close it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app import events as wire
from sessions_app import scopes
from sessions_app.events.conditions import HAS_CALLS, HAS_RESULTS
from sessions_app.events.superseded_events import find_superseded_ranges
from sessions_app.models import AgentSession, Event, Run
from sessions_app.presentation import schema_form
from sessions_app.redaction import REQUEST_CREDENTIAL
from sessions_app.runs import credential_requests

CONFIRMATION = "adk_request_confirmation"
INPUT = "adk_request_input"
SCHEMA_ARGUMENTS = ("response_schema", "responseSchema")
"""Names of the argument of a request for input that has the JSON schema of the answer."""

ANSWER_PREFIX = "answer."
"""Prefix of an answer's field names in a form."""

_HINT_FOR_PROGRAMS = re.compile(
    r"Please approve or reject the tool call .*\(\)(?: by responding with a FunctionResponse with an expected"
    r" ToolConfirmation payload)?\.?",
    re.DOTALL,
)
"""ADK's default hint (`google/adk/tools/function_tool.py`, `google/adk/workflow/utils`)."""

ANSWERS_SCANNED = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """An open call. `tool` and `args` are the call to confirm, or the question's own.

    Attributes:
        schema: JSON schema of the answer, if known.
        credential: the credential request, if the question is one.
        is_answered: an active run carries the answer, which no event contains yet.
    """

    call_id: str
    name: str
    seq: int
    invocation_id: str
    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    hint: str = ""
    payload: Any = None
    schema: dict[str, Any] = field(default_factory=dict)
    credential: credential_requests.CredentialRequest | None = None
    is_answered: bool = False

    @property
    def fields(self) -> list[schema_form.FormField]:
        """Fields of the answer's form; empty if the schema is unknown."""
        return schema_form.build_fields(self.schema, ANSWER_PREFIX)

    @property
    def wants_text(self) -> bool:
        """Tell whether the answer is plain text, even if it looks like JSON."""
        return [(each.name, each.kind) for each in self.fields] == [("", "text")]

    @property
    def is_confirmation(self) -> bool:
        """Tell whether the answer is yes or no."""
        return self.name == CONFIRMATION

    @property
    def shows_all_arguments(self) -> bool:
        """Tell whether the form shows everything that the call's arguments contain."""
        return self.is_confirmation or self.is_input or self.credential is not None

    @property
    def argument_texts(self) -> dict[str, str]:
        """The full arguments: strings unchanged, other values as JSON."""
        return {
            name: value if isinstance(value, str) else scopes.dumps(value)
            for name, value in self.args.items()
        }

    @property
    def payload_json(self) -> str:
        """The payload that the tool proposes, as editable JSON; empty if there is none."""
        return "" if self.payload is None else json.dumps(self.payload, ensure_ascii=False, indent=2)

    @property
    def is_input(self) -> bool:
        """Tell whether the agent requests a value from the user instead of waiting for a tool."""
        return self.name == INPUT


def open_questions(session: AgentSession, events: Iterable[Event]) -> dict[int, list[Question]]:
    """Return the open calls among the events, by the `seq` of the event that made them.

    No query if no event waits; else three: answers in events, answers in active runs, bodies of the waiting events.
    """
    waiting = [event.seq for event in events if '"waiting":true' in event.summary]
    if not waiting:
        return {}
    answered_ids, sent_ids = _ids_answered_after(session, min(waiting)), _ids_being_answered(session)
    bodies = Event.objects.filter(session=session, seq__in=waiting).order_by("seq")
    questions: dict[int, list[Question]] = defaultdict(list)
    for seq, invocation_id, data in bodies.values_list("seq", "invocation_id", "data"):
        body = json.loads(data)
        long_running_ids = set(body.get("longRunningToolIds") or [])
        for call in wire.function_calls(body):
            if call.get("id") in long_running_ids - answered_ids:
                question = _parse_question(call, seq, invocation_id)
                questions[seq].append(replace(question, is_answered=question.call_id in sent_ids))
    return questions


def find_question(session: AgentSession, call_id: str) -> Question | None:
    """Return the open call with this id; None if it was answered, rewound, or never made.

    A call counts as answered once a queued run carries its answer.
    """
    if call_id in _ids_being_answered(session):
        return None
    asking_events = Event.objects.filter(HAS_CALLS, session=session, summary__contains='"waiting":true')
    rows = asking_events.order_by("-seq").defer("data", "private")[:ANSWERS_SCANNED]
    questions = open_questions(session, rows)
    events = (
        event for event in rows if any(each.call_id == call_id for each in questions.get(event.seq, []))
    )
    event = next(events, None)
    if event is None or find_superseded_ranges(session, event.seq).rewound_by(event):
        return None
    return next(question for question in questions[event.seq] if question.call_id == call_id)


def _ids_being_answered(session: AgentSession) -> set[str]:
    answering_runs = Run.objects.filter(
        session=session, status__in=Run.ACTIVE, request__contains='"functionResponse"'
    )
    requests = answering_runs.values_list("request", flat=True)
    return {call_id for request in requests for call_id in answered_call_ids(json.loads(request))}


def answered_call_ids(request: Mapping[str, Any]) -> set[str]:
    """Return the ids of the calls that the message of a run's request answers."""
    answers = wire.function_responses({"content": request.get("new_message")})
    return {str(answer["id"]) for answer in answers if answer.get("id")}


def _ids_answered_after(session: AgentSession, seq: int) -> set[str]:
    answers = Event.objects.filter(HAS_RESULTS, session=session, author="user", seq__gt=seq)
    summaries = answers.order_by("seq").values_list("summary", flat=True)[:ANSWERS_SCANNED]
    return {result["id"] for summary in summaries for result in json.loads(summary).get("results", [])}


def _parse_question(call: dict[str, Any], seq: int, invocation_id: str) -> Question:
    args = call.get("args") or {}
    name = call.get("name") or ""
    question = Question(call["id"], name, seq, invocation_id, name, args, hint=str(args.get("message") or ""))
    if name == CONFIRMATION:
        original = args.get("originalFunctionCall") or {}
        confirmation = args.get("toolConfirmation") or {}
        return replace(
            question,
            tool=original.get("name") or "",
            args=original.get("args") or {},
            hint=_human_hint(confirmation.get("hint") or ""),
            payload=confirmation.get("payload"),
        )
    if name == REQUEST_CREDENTIAL:
        return replace(question, credential=credential_requests.parse_request(args))
    if name == INPUT:
        schema = next((args[name] for name in SCHEMA_ARGUMENTS if args.get(name)), None)
        return replace(
            question, schema=schema if isinstance(schema, dict) else {}, payload=args.get("payload")
        )
    return question


def _human_hint(hint: str) -> str:
    """Return a confirmation's hint; empty if it is ADK's default, which addresses programs."""
    return "" if _HINT_FOR_PROGRAMS.fullmatch(hint.strip()) else hint
