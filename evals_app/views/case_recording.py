"""The page that makes eval cases of sessions: what a case expects of each turn, and the change that adds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from evals_app.cases import edits, expected_steps, message_text, review, session_cases
from evals_app.cases.form_fields import CaseField
from evals_app.cases.recorded_fixtures import RecordedFixtures, find_changes, read_recorded_fixtures
from evals_app.cases.session_cases import CaseOptions, SessionTurn, TurnExpectation, WrittenKey
from evals_app.files import file_changes, library
from evals_app.files.file_changes import EvalsetChange
from evals_app.models import EvalSet
from evals_app.views.case_editor import change_context, evalset_url
from evals_app.views.evalsets import runnable_apps
from sessions_app.http import note_object
from sessions_app.lookup import find_session, parse_number
from sessions_app.store import realms
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession

RECORD = "devui/evals/record.html"

MAX_SESSIONS = 50
"""Maximum number of sessions that become cases at once."""

ANSWER_MISSING = "Write the answer that would have been right."

Json = dict[str, Any]


@dataclass(frozen=True)
class StepField:
    """A recorded tool call or intermediate text as a field that keeps it. `call`: the call; None for a text."""

    name: str
    index: int
    is_kept: bool
    call: Json | None = None
    author: str = ""
    text: str = ""


@dataclass(frozen=True)
class TurnForm:
    """Fields for what a case expects of a turn. `is_wrong`: its recorded answer is no answer to expect.

    `changes` are what persons changed of it at pauses: then its recorded answer is not expected, either.
    `is_read` is false if the agent's runtime could not be asked for the turn: the fields are as they were sent.
    """

    turn: SessionTurn
    answer: CaseField
    steps: list[StepField]
    recorded: str
    is_wrong: bool
    changes: Sequence[Json] = ()
    is_read: bool = True

    @classmethod
    def unread(cls, turn: SessionTurn, sent: TurnExpectation, *, is_wrong: bool) -> TurnForm:
        """Return the fields of a turn as they were sent, so that nothing written is lost."""
        ticked_indexes = {f"call.{turn.first}": sent.calls, f"text.{turn.first}": sent.texts}
        steps = [
            StepField(name, index, True)
            for name, indexes in ticked_indexes.items()
            for index in sorted(indexes)
        ]
        return cls(turn, CaseField(f"answer.{turn.first}", sent.answer), steps, "", is_wrong, is_read=False)

    @classmethod
    def of(
        cls,
        turn: SessionTurn,
        recorded: Json,
        cases_request: CasesRequest,
        *,
        changes: Sequence[Json],
        is_wrong: bool,
        is_refused: bool,
    ) -> TurnForm:
        """Return the fields of a turn, given ADK's turn and what persons changed."""
        expectation = cases_request.options.turns.get(turn.first)
        recorded_answer = message_text.message_text(recorded.get("final_response"))
        answer = expectation.answer if expectation else "" if is_wrong or changes else recorded_answer
        error = ANSWER_MISSING if is_wrong and is_refused and not answer.strip() else ""
        answer_field = CaseField(f"answer.{turn.first}", answer, error)
        steps = _list_steps(turn.first, recorded.get("intermediate_data"), expectation)
        return cls(turn, answer_field, steps, recorded_answer, is_wrong, changes)


def _list_steps(seq: int, data: Json | None, expectation: TurnExpectation | None) -> list[StepField]:
    """Return the fields of the recorded steps of a turn; without an expectation all of them are kept."""
    calls = [
        StepField(
            f"call.{seq}",
            index,
            expectation is None or index in expectation.calls,
            call={"name": call.name, "args": call.args},
        )
        for index, call in enumerate(expected_steps.expected_calls(data))
    ]
    texts = [
        StepField(
            f"text.{seq}",
            index,
            expectation is None or index in expectation.texts,
            author=text.author,
            text=text.text,
        )
        for index, text in enumerate(expected_steps.expected_texts(data))
    ]
    return [*calls, *texts]


@dataclass(frozen=True)
class CaseSource:
    """A session that is to become a case. `conversation`: ADK's turns by invocation; None: not read.

    `changes` are what persons changed at pauses, by invocation.
    """

    session: AgentSession
    turns: list[SessionTurn]
    part: list[SessionTurn]
    keys: list[WrittenKey]
    case_id: str
    wrong: SessionTurn | None = None
    changes: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    conversation: list[Json] | None = None

    @property
    def first(self) -> str:
        """Invocation of the first turn of the part."""
        return self.part[0].invocation_id if self.part else ""

    @property
    def last(self) -> str:
        """Invocation of the last turn of the part."""
        return self.part[-1].invocation_id if self.part else ""

    def turn_forms(self, cases_request: CasesRequest, *, is_refused: bool) -> list[TurnForm]:
        """Return the fields of the part's turns that ADK has; `is_refused`: show what is wrong with them."""
        if self.conversation is None:
            sent = cases_request.options.turns
            return [
                TurnForm.unread(turn, sent[turn.first], is_wrong=turn == self.wrong)
                for turn in self.part
                if turn.first in sent
            ]
        recorded = {turn.get("invocation_id"): turn for turn in self.conversation}
        return [
            TurnForm.of(
                turn,
                recorded[turn.invocation_id],
                cases_request,
                changes=self.changes.get(turn.invocation_id, ()),
                is_wrong=turn == self.wrong,
                is_refused=is_refused,
            )
            for turn in self.part
            if turn.invocation_id in recorded
        ]


@dataclass(frozen=True)
class CasesRequest:
    """A request to create cases: sessions, the part of one, target evalset, and expectations.

    `wrong` is the position of an event in the turn whose answer was wrong: its expected answer is to be written. Unless
    others are chosen the case has only this turn, because metrics take the mean of all turns.
    """

    sessions: list[int]
    first: str
    last: str
    ids: list[str]
    target: str
    new_id: str
    options: CaseOptions
    reviewed: str
    wrong: int | None = None

    @classmethod
    def of(cls, fields: QueryDict, *, is_form: bool) -> CasesRequest:
        """Read it; without a form, what a case usually expects."""
        sessions = [int(pk) for pk in fields.getlist("session") if pk.isdecimal() and len(pk) < 19]
        fixtures = "fixtures" in fields
        options = CaseOptions(True, True, None if len(sessions) > 1 else frozenset(), False, fixtures)
        if is_form:
            keys = None if "all_keys" in fields else frozenset(fields.getlist("key"))
            is_single = len(sessions) == 1
            options = CaseOptions(
                is_single or "answers" in fields,
                is_single or "steps" in fields,
                keys,
                "turn_states" in fields,
                fixtures,
                _read_expectations(fields) if is_single else {},
            )
        return cls(
            list(dict.fromkeys(sessions)),
            fields.get("first", ""),
            fields.get("last", ""),
            fields.getlist("case_id"),
            fields.get("target", ""),
            fields.get("new_id", "").strip(),
            options,
            fields.get("seen", ""),
            parse_number(fields.get("wrong", "")),
        )


def _read_expectations(fields: QueryDict) -> Mapping[int, TurnExpectation]:
    """Return what is expected of the turns that the form showed, by the position of their first event."""
    return {
        seq: TurnExpectation(
            fields.get(f"answer.{seq}", "").replace("\r\n", "\n"),
            _read_numbers(fields, f"call.{seq}"),
            _read_numbers(fields, f"text.{seq}"),
        )
        for seq in _read_numbers(fields, "turn")
    }


def _read_numbers(fields: QueryDict, name: str) -> frozenset[int]:
    numbers = map(parse_number, fields.getlist(name))
    return frozenset(number for number in numbers if number is not None)


async def record(request: HttpRequest) -> HttpResponse:
    """Make cases of the sessions that `?session=` names; of one, the part from `?first=` to `?last=` if wanted.

    A POST with `action=choose` shows the form again for another part; any other POST shows what would be written, with
    the mark of what was shown it writes that.

    Raises:
        SessionMissing: there is no such session.
        BadInput: none is named, or they are of several apps.
    """
    fields = request.POST if request.method == "POST" else request.GET
    cases_request = CasesRequest.of(fields, is_form=request.method == "POST")
    sources = await units_of_work.read(_read_sources, cases_request)
    app_name = sources[0].session.app_name
    note_object(request, cases_request.target or cases_request.new_id, app=app_name)
    await units_of_work.write(library.refresh_known, app_name)
    is_choice = request.method != "POST" or fields.get("action") == "choose"
    if is_choice and (len(sources) > 1 or not sources[0].part):
        return await units_of_work.read(_render_record_form, request, cases_request, sources)
    try:
        sources = [
            replace(source, conversation=await session_cases.fetch_conversation(source.session))
            for source in sources
        ]
        if is_choice or _lacks_answer(cases_request, sources[0]):
            status = 200 if is_choice else 422
            return await units_of_work.read(
                _render_record_form, request, cases_request, sources, None, None, status
            )
        planned_change, saved_url = await _save_cases(app_name, cases_request, sources)
    except DevUIError as error:
        status = 200 if is_choice else error.status
        return await units_of_work.read(
            _render_record_form, request, cases_request, sources, None, error, status
        )
    if saved_url:
        return redirect(saved_url)
    return await units_of_work.read(
        _render_record_form, request, cases_request, sources, planned_change, None
    )


async def _save_cases(
    app_name: str, cases_request: CasesRequest, sources: list[CaseSource]
) -> tuple[EvalsetChange, str]:
    """Plan the change that adds the cases, and save it if it was reviewed; return it and the page of what was saved."""
    cases = [await units_of_work.read(_build_case, cases_request, source) for source in sources]
    planned_change = await units_of_work.read(_plan_cases, app_name, cases_request, cases)
    if not cases_request.reviewed:
        return planned_change, ""
    saved = await units_of_work.write(review.save_reviewed, planned_change, cases_request.reviewed, "session")
    if saved is None:
        return planned_change, ""
    added = planned_change.will_be.content.cases[-len(cases) :]  # under the ids that were free
    return planned_change, evalset_url(saved, [case.eval_id for case in added])


def _lacks_answer(cases_request: CasesRequest, source: CaseSource) -> bool:
    """Tell whether the right answer of the turn whose answer was wrong is not written yet."""
    if source.wrong not in source.part or source.wrong is None:
        return False
    expectation = cases_request.options.turns.get(source.wrong.first)
    return expectation is None or not expectation.answer.strip()


def _plan_cases(app_name: str, cases_request: CasesRequest, cases: list[Json]) -> EvalsetChange:
    if not cases_request.target:
        return file_changes.plan_new_file(app_name, cases_request.new_id, cases)
    evalset = library.find_evalset(app_name, cases_request.target)
    return file_changes.plan_change(evalset, partial(edits.append_cases, new_cases=cases))


def _read_sources(cases_request: CasesRequest) -> list[CaseSource]:
    if not cases_request.sessions or len(cases_request.sessions) > MAX_SESSIONS:
        raise BadInput(
            "No session is named."
            if not cases_request.sessions
            else f"{len(cases_request.sessions)} sessions are too many.",
            hint=f"Tick up to {MAX_SESSIONS} sessions in the list.",
        )
    used_ids: set[str] = set()
    sources = [
        _read_source(find_session(pk), cases_request, index, used_ids)
        for index, pk in enumerate(cases_request.sessions)
    ]
    apps = sorted({source.session.app_name for source in sources})
    if len(apps) > 1:
        raise BadInput(
            f"The sessions are of several agents: {', '.join(apps)}.",
            hint="An evalset is one agent's: choose sessions of one.",
        )
    return sources


def _read_source(
    session: AgentSession, cases_request: CasesRequest, index: int, used_ids: set[str]
) -> CaseSource:
    realms.refuse_nested(session)
    turns = session_cases.find_turns(session)
    part, wrong = turns, None
    if len(cases_request.sessions) == 1:
        wrong = session_cases.find_turn(turns, cases_request.wrong)
        wrong_id = wrong.invocation_id if wrong else ""
        part = session_cases.select_turns(
            turns, cases_request.first or wrong_id, cases_request.last or wrong_id
        )
    requested_id = cases_request.ids[index].strip() if index < len(cases_request.ids) else ""
    keys = session_cases.find_written_keys(session, part)
    name = edits.free_id(requested_id or session_cases.suggest_id(session, part), used_ids)
    used_ids.add(name)
    changes = find_changes(session, [turn.invocation_id for turn in part])
    return CaseSource(session, turns, part, keys, name, wrong, changes)


def _read_fixtures(sources: list[CaseSource]) -> RecordedFixtures:
    """Return the fixtures that the form offers for the case of one session; none if they would be too many."""
    if len(sources) != 1:
        return RecordedFixtures()
    try:
        return read_recorded_fixtures(sources[0].session, [turn.invocation_id for turn in sources[0].part])
    except BadInput:
        return RecordedFixtures()


def _build_case(cases_request: CasesRequest, source: CaseSource) -> Json:
    conversation = source.conversation or []
    return session_cases.build_case(
        source.session, source.part, conversation, source.case_id, cases_request.options
    )


def _render_record_form(
    request: HttpRequest,
    cases_request: CasesRequest,
    sources: list[CaseSource],
    change: EvalsetChange | None = None,
    error: DevUIError | None = None,
    status: int | None = None,
) -> HttpResponse:
    app_name = sources[0].session.app_name
    targets = EvalSet.objects.filter(app_name=app_name, gone=False, problems="[]").order_by("evalset_id")
    context = {
        "cases_request": cases_request,
        "sources": sources,
        "only": sources[0] if len(sources) == 1 else None,
        "turn_forms": sources[0].turn_forms(cases_request, is_refused=status == 422)
        if len(sources) == 1
        else [],
        "recorded_fixtures": _read_fixtures(sources),
        "app_name": app_name,
        "targets": list(targets.values_list("evalset_id", flat=True)),
        **change_context(change, error),
        "has_changed": bool(change and cases_request.reviewed),
        "apps": runnable_apps(),
    }
    return render(request, RECORD, context, status=status or (error.status if error else 200))
