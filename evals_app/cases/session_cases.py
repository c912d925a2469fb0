"""Cases made of sessions: the turns of a session or a part of it, with initial and expected state.

ADK converts the turns in the agent's runtime. The state at a point comes from the history, so a case made of turns
3 to 5 starts with the state before turn 3, even if the session has continued.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Max, Min

from evals_app.cases import expected_steps, message_text
from evals_app.cases.form_fields import browser_text
from evals_app.cases.recorded_fixtures import find_changes, read_recorded_fixtures
from evals_app.files.content import FINAL_STATE, TURN_STATES
from evals_app.files.fixtures import FIXTURES
from sessions_app.runs.runtime_client import provider
from sessions_app.store import scopes
from sessions_app.store.errors import BadInput
from sessions_app.store.events.superseded_events import find_superseded_ranges
from sessions_app.store.models import AgentSession, Event, Scope, StateChange
from sessions_app.store.scopes import EVALUATION_KEY
from sessions_app.store.short_texts import truncate
from sessions_app.store.state import history

Json = dict[str, Any]

MAX_TURNS = 1_000
"""Most turns of a session to choose from."""

PREVIEW_LENGTH = 120


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """Turn of a session: a user message and the events that follow. Rewound turns are left out."""

    number: int
    invocation_id: str
    first: int
    last: int
    says: str


@dataclass(frozen=True, slots=True)
class WrittenKey:
    """Key that a part of a session wrote, with its last value. JSON null means removed."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class TurnExpectation:
    """The expected answer of a turn, and the recorded steps that are expected of it.

    Attributes:
        answer: text of the expected answer.
        calls: indexes of the recorded tool calls that are expected.
        texts: indexes of the recorded intermediate responses that are expected.
    """

    answer: str
    calls: frozenset[int]
    texts: frozenset[int]


@dataclass(frozen=True)
class CaseOptions:
    """Expectations of a case. `keys` are those of the final state; None for all written keys.

    `answers` and `steps` tell whether the recorded ones are expected of turns that are not in `turns`, by first event.
    `fixtures` tells whether the recorded results answer the tool calls of the case.
    """

    answers: bool = True
    steps: bool = True
    keys: frozenset[str] | None = frozenset()
    turn_states: bool = False
    fixtures: bool = False
    turns: Mapping[int, TurnExpectation] = field(default_factory=dict)


def find_turns(session: AgentSession) -> list[SessionTurn]:
    """Return the turns of a session that start with a user message and are not rewound."""
    spans = (
        Event.objects.filter(session=session)
        .exclude(invocation_id="")
        .order_by()
        .values("invocation_id")
        .annotate(first=Min("seq"), last=Max("seq"))
        .order_by("first")[:MAX_TURNS]
    )
    begins = {span["first"]: span for span in spans}
    marks = find_superseded_ranges(session, 1)
    turns: list[SessionTurn] = []
    heads = Event.objects.filter(session=session, seq__in=list(begins), author="user").order_by("seq")
    for event in heads.defer("data", "private"):
        if marks.rewound_by(event):
            continue
        summary = json.loads(event.summary)
        if not (summary.get("text") or summary.get("media")):
            continue  # ADK makes no turn of an edit or of an answer
        span = begins[event.seq]
        says = truncate(str(summary.get("text") or ""), PREVIEW_LENGTH)
        turns.append(SessionTurn(len(turns) + 1, event.invocation_id, event.seq, span["last"], says))
    return turns


def select_turns(turns: Sequence[SessionTurn], first: str, last: str) -> list[SessionTurn]:
    """Return the turns from one invocation to another; an id of no turn means the first or last turn.

    Raises:
        BadInput: the last turn comes before the first.
    """
    names = [turn.invocation_id for turn in turns]
    start = names.index(first) if first in names else 0
    end = names.index(last) if last in names else len(names) - 1
    if start > end and turns:
        raise BadInput(
            "The part ends before it begins.", hint="Choose a last turn that comes after the first."
        )
    return list(turns[start : end + 1])


def find_turn(turns: Sequence[SessionTurn], seq: int | None) -> SessionTurn | None:
    """Return the turn that an event belongs to; None if it belongs to none."""
    return next((turn for turn in turns if seq is not None and turn.first <= seq <= turn.last), None)


def find_written_keys(session: AgentSession, turns: Sequence[SessionTurn]) -> list[WrittenKey]:
    """Return the keys of all scopes that turns wrote, with their values at the end. Credentials are left out."""
    return _written_keys(session, turns[0].first, turns[-1].last) if turns else []


def initial_state(session: AgentSession, turn: SessionTurn) -> Json:
    """Return the state at the start of a turn, with prefixes, without credentials.

    It includes the state delta of the user's message, since a case has no other field for that.
    """
    event = Event.objects.filter(session=session, seq=turn.first).defer("data", "private").get()
    snapshot = history.state_at(session, event)
    hidden = _private_rows(row.pk for _, rows in snapshot.scopes() for row in rows)
    return {
        scopes.PREFIX[scope] + row.key: json.loads(row.value or "null")
        for scope, rows in snapshot.scopes()
        for row in rows
        if row.pk not in hidden and row.key != EVALUATION_KEY
    }


async def fetch_conversation(session: AgentSession) -> list[Json]:
    """Return ADK's turns of a session, from the agent's runtime.

    Raises:
        RuntimeUnavailable: the agent cannot be loaded.
    """
    client = await provider().client(session.app_name)
    owner = {"user_id": session.user_id, "session_id": session.session_id, "realm": session.realm}
    turns: list[Json] = await client.call("POST", "/devui/evals/conversation", owner)
    return turns


def build_case(
    session: AgentSession,
    turns: Sequence[SessionTurn],
    conversation: Iterable[Json],
    case_id: str,
    options: CaseOptions,
) -> Json:
    """Build a case of consecutive turns of a session, given all of ADK's turns of the session.

    The answer of a turn in which a person changed something at a pause is expected only if `options.turns` has it.

    Raises:
        BadInput: ADK has none of these turns, or they have too many tool calls for fixtures.
    """
    turns_by_id = {turn.get("invocation_id"): turn for turn in conversation}
    case_turns = [turn for turn in turns if turn.invocation_id in turns_by_id]
    if not case_turns:
        raise BadInput(
            f"Nothing that was said in session {session.session_id!r} makes a turn of a case.",
            hint="Choose other turns, or leave the session out.",
        )
    invocation_ids = [turn.invocation_id for turn in case_turns]
    changes = find_changes(session, invocation_ids)
    return {
        "eval_id": case_id,
        **_recorded_fixtures(session, invocation_ids, options),
        "conversation": [
            _expected_turn(
                turns_by_id[turn.invocation_id],
                replace(options, answers=options.answers and turn.invocation_id not in changes),
                options.turns.get(turn.first),
            )
            for turn in case_turns
        ],
        "session_input": {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "state": initial_state(session, case_turns[0]),
        },
        **_expected_states(session, case_turns, options),
    }


def _recorded_fixtures(session: AgentSession, invocation_ids: list[str], options: CaseOptions) -> Json:
    """Return the field of a case with the recorded results of its tool calls, if it is to have them."""
    fixtures = read_recorded_fixtures(session, invocation_ids).fixtures if options.fixtures else []
    return {FIXTURES: fixtures} if fixtures else {}


def _expected_states(session: AgentSession, turns: Sequence[SessionTurn], options: CaseOptions) -> Json:
    """Return the fields of a case for the expected state, at the end and after each turn."""
    written_keys = find_written_keys(session, turns)
    final = _key_values(key for key in written_keys if options.keys is None or key.name in options.keys)
    expected: Json = {FINAL_STATE: final} if final else {}
    if options.turn_states:
        after_turns = [_key_values(_written_keys(session, turn.first, turn.last)) for turn in turns]
        if any(after_turns):
            expected[TURN_STATES] = after_turns
    return expected


def suggest_id(session: AgentSession, turns: Sequence[SessionTurn]) -> str:
    """Return a case id made of the session's title, or of its first message."""
    words = "".join(
        letter if letter.isalnum() else " "
        for letter in (session.title or (turns[0].says if turns else "") or session.session_id)
    ).split()
    return "-".join(words)[:48].strip("-").lower() or "case"


def _expected_turn(
    turn: Mapping[str, Any], options: CaseOptions, expectation: TurnExpectation | None
) -> Json:
    if expectation is not None:
        return _apply_expectation(dict(turn), expectation)
    left_out = {
        *(() if options.answers else ("final_response",)),
        *(() if options.steps else ("intermediate_data",)),
    }
    return {name: value for name, value in turn.items() if name not in left_out}


def _apply_expectation(turn: Json, expectation: TurnExpectation) -> Json:
    """Return a recorded turn with the expected answer, and with the steps that are kept.

    The thoughts behind an answer do not belong to another answer, and metrics would compare them.
    """
    answer = turn.get("final_response")
    if answer and browser_text(message_text.message_text(answer)) != browser_text(expectation.answer):
        answer = {**answer, "parts": [part for part in answer.get("parts") or [] if not part.get("thought")]}
    answer = message_text.with_text(answer, expectation.answer, "model") if expectation.answer else None
    steps = turn.get("intermediate_data")
    calls = [call for call in expected_steps.expected_calls(steps) if call.origin in expectation.calls]
    texts = [text for text in expected_steps.expected_texts(steps) if text.origin in expectation.texts]
    kept_steps = expected_steps.with_steps(steps, calls, texts, "") if calls or texts else None
    expected = {"final_response": answer, "intermediate_data": kept_steps}
    fields = {**turn, **expected}
    return {name: value for name, value in fields.items() if name not in expected or value is not None}


def _key_values(keys: Iterable[WrittenKey]) -> Json | None:
    return {key.name: json.loads(key.value) for key in keys} or None


def _written_keys(session: AgentSession, first: int, last: int) -> list[WrittenKey]:
    changes = StateChange.objects.filter(session=session, seq__gte=first, seq__lte=last).defer("private")
    newest: dict[tuple[str, str], StateChange] = {}
    for row in changes.exclude(key=EVALUATION_KEY).order_by("seq", "pk"):
        newest[(row.scope, row.key)] = row
    hidden = _private_rows(row.pk for row in newest.values())
    return [
        WrittenKey(scopes.PREFIX[Scope(scope)] + key, "null" if row.removed else row.value or "null")
        for (scope, key), row in sorted(newest.items())
        if row.pk not in hidden
    ]


def _private_rows(pks: Iterable[int]) -> set[int]:
    """Return the ledger rows with private values."""
    private_pks: set[int] = set()
    all_pks = list(pks)
    for start in range(0, len(all_pks), history.CHUNK):
        rows = StateChange.objects.filter(
            pk__in=all_pks[start : start + history.CHUNK], private__isnull=False
        )
        private_pks |= set(rows.values_list("pk", flat=True))
    return private_pks
