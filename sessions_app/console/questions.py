"""Questions of agents: the open long-running calls (`open_calls`), as forms show them."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.console import credential_requests
from sessions_app.presentation import schema_form
from sessions_app.store import events as wire
from sessions_app.store import scopes
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.events.superseded_events import SupersededRanges, find_superseded_ranges
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.redaction import REQUEST_CREDENTIAL
from sessions_app.store.runs.open_calls import WAITING_IN_SUMMARY, find_open_calls

CONFIRMATION = "adk_request_confirmation"
INPUT = "adk_request_input"
CHOICE = "get_user_choice"
MAX_CHOICES = 20
"""Most options that are shown as buttons; of more, one is typed."""

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

QUESTIONS_SCANNED = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """An open call. `tool` and `args` are the call to confirm, or the question's own.

    Attributes:
        place: position among the calls of its event, from 0.
        nth: it is closed by so many answers to its id after its event, those given included.
        schema: JSON schema of the answer, if known.
        credential: the credential request, if the question is one.
        is_answered: an active run carries the answer, which no event contains yet.
    """

    call_id: str
    name: str
    seq: int
    place: int
    invocation_id: str
    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    hint: str = ""
    payload: Any = None
    schema: dict[str, Any] = field(default_factory=dict)
    credential: credential_requests.CredentialRequest | None = None
    is_answered: bool = False
    nth: int = 1

    @property
    def dom_name(self) -> str:
        """Name of its inputs in a page, which may have several questions of one id."""
        return f"{self.seq}-{self.place}-{self.call_id}"

    @property
    def fields(self) -> list[schema_form.FormField]:
        """Fields of the answer's form; empty if the schema is unknown."""
        return schema_form.build_fields(self.schema, ANSWER_PREFIX)

    @property
    def choices(self) -> list[str]:
        """The texts that ADK's tool `get_user_choice` offers; empty for other calls, and if they are too many."""
        options = self.args.get("options")
        if self.name != CHOICE or not isinstance(options, list) or len(options) > MAX_CHOICES:
            return []
        return options if all(isinstance(option, str) and option.strip() for option in options) else []

    @property
    def wants_text(self) -> bool:
        """Tell whether the answer is plain text, even if it looks like JSON."""
        return [(field.name, field.kind) for field in self.fields] == [("", "text")]

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


def open_questions(
    session: AgentSession, events: Iterable[Event], ranges: SupersededRanges | None = None
) -> dict[int, list[Question]]:
    """Return the open calls among the events, by the `seq` of the event that made them.

    No query if no event waits; else three: answers in events, answers in active runs, bodies of the waiting events.
    Without `ranges`, those that affect the events, also the queries for them.
    """
    waiting = {event.seq for event in events if WAITING_IN_SUMMARY in event.summary}
    if not waiting:
        return {}
    ranges = ranges or find_superseded_ranges(session, min(waiting))
    calls = [call for call in find_open_calls(session, min(waiting), ranges) if call.seq in waiting]
    sent_ids = _ids_being_answered(session)
    rows = Event.objects.filter(session=session, seq__in={call.seq for call in calls})
    bodies = dict(rows.values_list("seq", "data"))
    questions: dict[int, list[Question]] = defaultdict(list)
    for call in calls:
        body = wire.function_calls(json.loads(bodies[call.seq]))[call.place]
        question = _parse_question(body, call.seq, call.place, call.invocation_id)
        is_answered = sent_ids[question.call_id] > 0
        sent_ids[question.call_id] -= 1
        questions[call.seq].append(replace(question, is_answered=is_answered, nth=call.nth))
    return questions


def find_question(session: AgentSession, call_id: str) -> Question | None:
    """Return the first open call with this id; None if it was answered, rewound, or never made.

    A call counts as answered once a queued run carries its answer.
    """
    rows = Event.objects.filter(HAS_CALLS, session=session, summary__contains=WAITING_IN_SUMMARY)
    rows = rows.order_by("-seq").defer("data", "private")[:QUESTIONS_SCANNED]
    asking = [event for event in rows if wire.shorten_id(call_id) in event.decoded_summary.call_ids]
    ranges = find_superseded_ranges(session, asking[-1].seq if asking else session.last_seq)
    newest = [event for event in asking if not ranges.rewound_by(event)][:1]
    questions = open_questions(session, newest, ranges).get(newest[0].seq, []) if newest else []
    return next(
        (question for question in questions if question.call_id == call_id and not question.is_answered), None
    )


def _ids_being_answered(session: AgentSession) -> Counter[str]:
    """Return how many answers to each call id active runs carry."""
    answering_runs = Run.objects.filter(
        session=session, status__in=Run.ACTIVE, request__contains='"functionResponse"'
    )
    requests = answering_runs.values_list("request", flat=True)
    return Counter(call_id for request in requests for call_id in answered_call_ids(json.loads(request)))


def answered_call_ids(request: Mapping[str, Any]) -> list[str]:
    """Return the ids of the calls that the message of a run's request answers."""
    answers = wire.function_responses({"content": request.get("new_message")})
    return [str(answer["id"]) for answer in answers if answer.get("id")]


def _parse_question(call: dict[str, Any], seq: int, position: int, invocation_id: str) -> Question:
    args = call.get("args") or {}
    name = call.get("name") or ""
    hint = str(args.get("message") or "")
    question = Question(call["id"], name, seq, position, invocation_id, name, args, hint=hint)
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
