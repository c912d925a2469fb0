"""Answers to an agent's questions, as the function responses that ADK expects."""

from __future__ import annotations

import json
from typing import Any

from django.http import QueryDict

from sessions_app.console import credential_requests
from sessions_app.console.credential_requests import InvalidAnswer
from sessions_app.console.questions import Question
from sessions_app.lookup import parse_number
from sessions_app.presentation import schema_form

CREDENTIAL_INPUTS = ("api_key", "username", "password", "token", "response_uri", "credential")


def answer_message(question: Question, response: dict[str, Any]) -> dict[str, Any]:
    """Return the message that answers a question: ADK's user `Content` with one function response."""
    answer = {"id": question.call_id, "name": question.name, "response": response}
    return {"role": "user", "parts": [{"functionResponse": answer}]}


def read_answer(question: Question, posted: QueryDict) -> dict[str, Any]:
    """Return the response that a form contains.

    A confirmation is a `ToolConfirmation` (`google/adk/tools/tool_confirmation.py`). Any other value than a JSON object
    is wrapped as `{"result": …}`, as ADK's command line does.

    Raises:
        InvalidAnswer: the form is incomplete or holds invalid values.
    """
    if question.credential is not None:
        inputs = {name: posted.get(name, "") for name in CREDENTIAL_INPUTS}
        return credential_requests.answer_from_form(question.credential, inputs)
    if question.is_confirmation:
        return _confirmation_answer(posted)
    if choice := posted.get("choice", ""):
        return {"result": _read_choice(question, choice)}
    text = posted.get("response", "").strip()
    if text:
        return _wrap_response(question, _load_json("response", text) if text.startswith(("{", "[")) else text)
    if not question.fields:
        raise InvalidAnswer.at(
            "response", "The answer is empty.", hint="Write text, or a JSON object such as {}."
        )
    return _wrap_response(question, _read_fields(question, posted))


def _confirmation_answer(posted: QueryDict) -> dict[str, Any]:
    pressed = posted.get("confirmed", "")
    if pressed not in {"yes", "no"}:
        raise InvalidAnswer.at(
            "", "The answer says neither yes nor no.", hint="Press one of the two buttons."
        )
    payload = posted.get("payload", "")
    return {"confirmed": pressed == "yes"} | (
        {"payload": _load_json("payload", payload)} if payload.strip() else {}
    )


def _read_choice(question: Question, choice: str) -> str:
    number = parse_number(choice)
    if number is None or number >= len(question.choices):
        raise InvalidAnswer.at(
            "", "This is none of the choices.", hint="Press one of the buttons, or write an answer."
        )
    return question.choices[number]


def _read_fields(question: Question, posted: QueryDict) -> Any:
    value, fields = schema_form.read_value(schema_form.fill_fields(question.fields, posted))
    if wrong := schema_form.invalid_fields(fields):
        message = f"{wrong[0].label}: {wrong[0].error}"
        raise InvalidAnswer({field.input_name: field.error for field in wrong}, message)
    return value


def _wrap_response(question: Question, value: Any) -> dict[str, Any]:
    """Return a value as a response. ADK unwraps a requested input and parses a lone text as JSON, so text is quoted."""
    if isinstance(value, dict):
        return {"result": value} if question.is_input and set(value) == {"result"} else value
    if isinstance(value, str) and question.is_input and question.wants_text and _is_json(value):
        return {"result": json.dumps(value)}
    return {"result": value}


def _is_json(text: str) -> bool:
    """Tell whether ADK would parse the text as JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _load_json(name: str, text: str) -> Any:
    value, error = schema_form.parse_json_input(text)
    if error:
        raise InvalidAnswer({name: error}, f"The answer is not valid JSON. {error}")
    return value
