"""Form of a case: its data, its fields, and the case that the data describes.

A form shows only the editable fields of a case. All other data, including unknown fields, is taken from the case on
which the form was opened; the `origin` of each row is its index there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evals_app.cases import expected_steps, message_text
from evals_app.cases.fixture_forms import FIXTURE_COLUMNS, fixture_rows, read_fixtures
from evals_app.cases.form_fields import (
    CaseField,
    Nested,
    browser_text,
    field_text,
    field_word,
    form_rows,
    json_text,
    read_object,
    set_field,
)
from evals_app.cases.known_tools import KnownTools
from evals_app.files.content import FINAL_STATE, TURN_STATES
from evals_app.files.fixtures import FIXTURES
from evals_app.files.scenario_plan import ConversationPlan
from evals_app.files.schema import DEFAULT_USER
from evals_app.files.tags import MAX_TAG_LENGTH, TAGS, read_tags, require_tag, split_tags
from evals_app.metrics import catalog

Json = dict[str, Any]

PERSONAS = ("EXPERT", "NOVICE", "EVALUATOR")
OWN_PERSONA = "own"
RUBRIC_TYPES = tuple(catalog.RUBRIC_TYPES.values())
NEW_ROW_DEFAULTS = {"rubrics": {"type": RUBRIC_TYPES[0]}}
"""Initial data of new rows."""
NO_TOOLS = KnownTools()
RUBRIC_ERRORS = {"id": "Give the rubric an id.", "property": "Write what is true of a good answer."}
SCENARIO_ERRORS = {
    "starting_prompt": "Write the first message of the simulated user.",
    "plan": "Write what the simulated user wants or does.",
}


def case_form_data(case: Json) -> Nested:
    """Return the form data of a case."""
    scenario = case.get("conversation_scenario") or {}
    plan = ConversationPlan.parse(scenario.get("conversation_plan") or "")
    persona = scenario.get("user_persona")
    start = case.get("session_input") or {}
    states = case.get(TURN_STATES)
    turn_states = states if isinstance(states, list) else []
    return {
        "case_id": case.get("eval_id") or "",
        "tags": ", ".join(read_tags(case)),
        "kind": "scenario" if case.get("conversation_scenario") else "conversation",
        "turns": [
            _turn_form(turn, index, turn_states[index] if index < len(turn_states) else None)
            for index, turn in enumerate(case.get("conversation") or [])
        ],
        "starting_prompt": scenario.get("starting_prompt") or "",
        "goal": plan.goal,
        "style": plan.style,
        "plan": plan.steps,
        "persona": persona if isinstance(persona, str) else OWN_PERSONA if persona else "",
        "persona_json": json_text(persona) if isinstance(persona, dict) else "",
        "rubrics": [_rubric_form(rubric, index) for index, rubric in enumerate(case.get("rubrics") or [])],
        "app_name": start.get("app_name") or "",
        "user_id": start.get("user_id") or "",
        "session_id": start.get("session_id") or "",
        "state": json_text(start.get("state")),
        "final_state": json_text(case.get(FINAL_STATE)),
        "fixtures": fixture_rows(case.get(FIXTURES) or []),
    }


def _turn_form(turn: Json, index: int, state: Any) -> Nested:
    data = turn.get("intermediate_data")
    return {
        "origin": str(index),
        "user": message_text.message_text(turn.get("user_content")),
        "answer": message_text.message_text(turn.get("final_response")),
        "calls": [
            {"origin": str(call.origin), "name": call.name, "args": json_text(call.args)}
            for call in expected_steps.expected_calls(data)
        ],
        "responses": [
            {"origin": str(text.origin), "author": text.author, "text": text.text}
            for text in expected_steps.expected_texts(data)
        ],
        "rubrics": [_rubric_form(rubric, number) for number, rubric in enumerate(turn.get("rubrics") or [])],
        "state": json_text(state),
    }


def _rubric_form(rubric: Json, index: int) -> Nested:
    return {
        "origin": str(index),
        "id": rubric.get("rubric_id") or "",
        "property": (rubric.get("rubric_content") or {}).get("text_property") or "",
        "description": rubric.get("description") or "",
        "type": rubric.get("type") or "",
    }


class AppliedForm:
    """Result of applying form data to the case on which the form was opened.

    Attributes:
        case: in ADK's present form, snake case.
        errors: messages for invalid fields, by field name.
    """

    def __init__(self, data: Nested, base: Json, app_name: str) -> None:
        self.errors: dict[str, str] = {}
        self._data = data
        self._app_name = app_name
        self.case = self._read_case(base)

    def _read_case(self, base: Json) -> Json:
        case = {**base, "eval_id": field_word(self._data, "case_id", base.get("eval_id"))}
        if not case["eval_id"]:
            self.errors["case_id"] = "A case needs an id."
        is_scenario = field_text(self._data, "kind") == "scenario"
        states: list[Json | None] | None = None
        if is_scenario:
            case.pop("conversation", None)
            case["conversation_scenario"] = self._read_scenario(base.get("conversation_scenario") or {})
        else:
            case.pop("conversation_scenario", None)
            turns = base.get("conversation") or []
            forms = form_rows(self._data, "turns")
            case["conversation"] = [self._read_turn(index, form, turns) for index, form in enumerate(forms)]
            states = [
                self._read_json(form, "state", f"turns.{index}.state") for index, form in enumerate(forms)
            ]
        set_field(case, "session_input", self._read_session_input(base.get("session_input")))
        set_field(case, "rubrics", self._read_rubrics(self._data, "rubrics", base.get("rubrics")))
        set_field(case, FINAL_STATE, self._read_state("final_state", base.get(FINAL_STATE)))
        fixtures = read_fixtures(self._data, base.get(FIXTURES) or [], self.errors)
        set_field(case, FIXTURES, fixtures or (base.get(FIXTURES) if base.get(FIXTURES) == [] else None))
        set_field(case, TAGS, self._read_tags(base))
        set_field(case, TURN_STATES, _turn_states(base.get(TURN_STATES), states))
        return case

    def _read_tags(self, base: Json) -> Any:
        """Read the tags of the field; note invalid ones. Without tags: None, or the empty list that the case had."""
        old = base.get(TAGS)
        tags = split_tags(field_word(self._data, "tags", ", ".join(read_tags(base))))
        for tag in tags:
            try:
                require_tag(tag)
            except ValueError as error:
                self.errors["tags"] = f"{tag[:MAX_TAG_LENGTH]!r} {error}."
        if not tags:
            return old if old == [] else None
        return tags

    def _read_turn(self, index: int, form: Nested, turns: list[Json]) -> Json:
        origin = _origin_index(form, turns)
        base: Json = turns[origin] if origin is not None else {}
        user_content = message_text.with_text(base.get("user_content"), field_text(form, "user"), "user")
        if user_content is None or not (user_content.get("parts") or []):
            self.errors[f"turns.{index}.user"] = "What does the user say?"
        turn = {**base, "user_content": user_content or {"role": "user", "parts": []}}
        answer = message_text.with_text(base.get("final_response"), field_text(form, "answer"), "model")
        set_field(turn, "final_response", answer)
        old = base.get("intermediate_data")
        data = expected_steps.with_steps(
            old, self._read_calls(index, form, old), self._read_texts(index, form, old), self._app_name
        )
        set_field(turn, "intermediate_data", data)
        set_field(
            turn, "rubrics", self._read_rubrics(form, "rubrics", base.get("rubrics"), f"turns.{index}.")
        )
        return turn

    def _read_calls(
        self, turn_index: int, form: Nested, base: Json | None
    ) -> list[expected_steps.ExpectedCall]:
        old = expected_steps.expected_calls(base)
        calls = []
        for index, row in enumerate(form_rows(form, "calls")):
            where = f"turns.{turn_index}.calls.{index}"
            args = self._read_json(row, "args", f"{where}.args")
            origin = _origin_index(row, old)
            name = field_word(row, "name", old[origin].name if origin is not None else "")
            if not name:
                self.errors[f"{where}.name"] = "Which tool is called?"
            calls.append(expected_steps.ExpectedCall(name, args or {}, origin))
        return calls

    def _read_texts(
        self, turn_index: int, form: Nested, base: Json | None
    ) -> list[expected_steps.ExpectedText]:
        listed = expected_steps.expected_texts(base)
        texts = []
        for index, row in enumerate(form_rows(form, "responses")):
            origin = _origin_index(row, listed)
            old = listed[origin] if origin is not None else expected_steps.ExpectedText("", "")
            author = field_word(row, "author", old.author)
            if not author:
                self.errors[f"turns.{turn_index}.responses.{index}.author"] = "Which agent says it?"
            texts.append(expected_steps.ExpectedText(author, field_text(row, "text", old.text), origin))
        return texts

    def _read_rubrics(self, form: Nested, name: str, base: Any, where: str = "") -> list[Json] | None:
        listed = base or []
        rubrics = []
        for index, row in enumerate(form_rows(form, name)):
            origin = _origin_index(row, listed)
            old: Json = listed[origin] if origin is not None else {}
            content = old.get("rubric_content") or {}
            says = field_text(row, "property", content.get("text_property"))
            rubric = {**old, "rubric_id": field_word(row, "id", old.get("rubric_id"))}
            rubric["rubric_content"] = {**content, "text_property": says}
            for field in ("description", "type"):
                set_field(rubric, field, field_word(row, field, old.get(field)) or None)
            for field, key in (("id", "rubric_id"), ("property", "")):
                if not (rubric[key] if key else field_text(row, field).strip()):
                    self.errors[f"{where}{name}.{index}.{field}"] = RUBRIC_ERRORS[field]
            rubrics.append(rubric)
        return rubrics or (base if base == [] else None)

    def _read_scenario(self, base: Json) -> Json:
        goal, style = (" ".join(field_text(self._data, name).split()) for name in ("goal", "style"))
        plan = ConversationPlan(goal, style, field_text(self._data, "plan"))
        scenario = {
            **base,
            "starting_prompt": field_text(self._data, "starting_prompt", base.get("starting_prompt")),
            "conversation_plan": _keep_plan(str(plan), base.get("conversation_plan")),
        }
        for name, content in (("starting_prompt", scenario["starting_prompt"]), ("plan", str(plan))):
            if not content.strip():
                self.errors[name] = SCENARIO_ERRORS[name]
        persona = field_text(self._data, "persona")
        own_persona = (
            self._read_json(self._data, "persona_json", "persona_json") if persona == OWN_PERSONA else None
        )
        if persona == OWN_PERSONA and own_persona is None and "persona_json" not in self.errors:
            self.errors["persona_json"] = "Describe the persona as JSON, or choose one of ADK's."
        set_field(scenario, "user_persona", own_persona or persona or None)
        return scenario

    def _read_session_input(self, base: Any) -> Json | None:
        old = base or {}
        names = {
            name: field_word(self._data, name, old.get(name))
            for name in ("app_name", "user_id", "session_id")
        }
        state = self._read_json(self._data, "state", "state")
        if not any(names.values()) and not state:
            other_names = set(base or {}) - {*names, "state"}
            if not other_names:
                return None
        session = dict(base or {})
        session["app_name"] = names["app_name"] or self._app_name
        session["user_id"] = names["user_id"] or DEFAULT_USER
        set_field(session, "session_id", names["session_id"] or None)
        if state or "state" in session:
            session["state"] = state or {}
        return session

    def _read_state(self, name: str, base: Any) -> Any:
        state = self._read_json(self._data, name, name)
        return state or (base if base is not None and not base else None)

    def _read_json(self, form: Nested, name: str, where: str) -> Json | None:
        return read_object(form, name, where, self.errors)


def _keep_plan(new: str, old: Any) -> str:
    """Return the new plan, or the old one if they differ only in newlines and the like."""
    return old if isinstance(old, str) and browser_text(old) == browser_text(new) else new


def _turn_states(base: Any, states: list[Json | None] | None) -> Any:
    """Return the expected states after turns for the case; None if there are none."""
    if states is None or not any(states):
        return base if isinstance(base, list) and not any(base) and len(base) == len(states or []) else None
    return states


def _origin_number(row: Nested) -> int | None:
    origin = field_text(row, "origin")
    return int(origin) if origin.isdecimal() and len(origin) < 8 else None


def _origin_index(row: Nested, listed: list[Any]) -> int | None:
    number = _origin_number(row)
    return number if number is not None and number < len(listed) else None


Fields = dict[str, Any]


@dataclass(frozen=True)
class CaseForm:
    """Form of a case for a template. Rows are dictionaries of fields by their short names."""

    fields: Fields
    turns: list[Fields]
    rubrics: list[Fields]
    fixtures: list[Fields]
    kind: str
    persona: str
    faults: int

    @classmethod
    def of(
        cls, data: Nested, base: Json, errors: Mapping[str, str], tools: KnownTools = NO_TOOLS
    ) -> CaseForm:
        """Return the form for some data. `base` is the case on which it was opened, `tools` are the agent's."""
        warnings, hints = tools.check_calls(data), tools.describe_calls(data)

        def field(name: str, value: str) -> CaseField:
            return CaseField(name, value, errors.get(name, ""), warnings.get(name, ""), hints.get(name, ""))

        return cls(
            {name: field(name, field_text(data, name)) for name in PLAIN},
            [_turn_fields(field, index, row, base) for index, row in enumerate(form_rows(data, "turns"))],
            _row_fields(field, data, "rubrics", "", RUBRIC),
            _row_fields(field, data, "fixtures", "", FIXTURE_COLUMNS),
            "scenario" if field_text(data, "kind") == "scenario" else "conversation",
            field_text(data, "persona"),
            len(errors),
        )


PLAIN = (
    *("case_id", "tags", "starting_prompt", "goal", "style", "plan", "persona_json"),
    *("app_name", "user_id", "session_id", "state", "final_state"),
)
RUBRIC = ("origin", "id", "property", "description", "type")
MakeField = Callable[[str, str], CaseField]


def _turn_fields(field: MakeField, index: int, row: Nested, base: Json) -> Fields:
    where = f"turns.{index}."
    turns = base.get("conversation") or []
    origin = _origin_index(row, turns)
    old = turns[origin] if origin is not None else {}
    return {
        **{
            name: field(where + name, field_text(row, name)) for name in ("origin", "user", "answer", "state")
        },
        "user_rest": message_text.other_parts(old.get("user_content")),
        "answer_rest": message_text.other_parts(old.get("final_response")),
        "calls": _row_fields(field, row, "calls", where, ("origin", "name", "args")),
        "responses": _row_fields(field, row, "responses", where, ("origin", "author", "text")),
        "rubrics": _row_fields(field, row, "rubrics", where, RUBRIC),
    }


def _row_fields(
    field: MakeField, data: Nested, name: str, where: str, names: tuple[str, ...]
) -> list[Fields]:
    return [
        {column: field(f"{where}{name}.{index}.{column}", field_text(row, column)) for column in names}
        for index, row in enumerate(form_rows(data, name))
    ]
