"""Answers to what an agent asks, as the function responses that ADK expects."""

from __future__ import annotations

import json
from typing import Any

from sessions_app.errors import BadInput
from sessions_app.presentation import schemaform
from sessions_app.presentation.schemaform import Posted
from sessions_app.runs import credentials
from sessions_app.timeline.questions import Question

SECRETS = ("api_key", "username", "password", "token", "response_uri", "credential")


def content(question: Question, response: dict[str, Any]) -> dict[str, Any]:
    """Return the message that answers a question: ADK's `Content`, of the user, with one function response."""
    answer = {"id": question.call_id, "name": question.name, "response": response}
    return {"role": "user", "parts": [{"functionResponse": answer}]}


def read(question: Question, posted: Posted) -> dict[str, Any]:
    """Return the response that a form gives.

    A confirmation is a `ToolConfirmation` (`google/adk/tools/tool_confirmation.py`). What is no JSON object is sent as
    ADK's own command line sends it, as `{"result": …}`.

    Raises:
        BadInput: the answer cannot be meant.
    """
    if question.credential is not None:
        return credentials.answer(question.credential, {name: posted.get(name, "") for name in SECRETS})
    if question.is_confirmation:
        return _confirmation(posted)
    text = posted.get("response", "").strip()
    if text:
        return _wrapped(question, _loaded(text) if text.startswith(("{", "[")) else text)
    if not question.fields:
        raise BadInput("The answer is empty.", hint="Write text, or a JSON object such as {}.")
    return _wrapped(question, _filled(question, posted))


def _confirmation(posted: Posted) -> dict[str, Any]:
    pressed = posted.get("confirmed", "")
    if pressed not in {"yes", "no"}:
        raise BadInput("The answer says neither yes nor no.", hint="Press one of the two buttons.")
    payload = posted.get("payload", "")
    return {"confirmed": pressed == "yes"} | ({"payload": _loaded(payload)} if payload.strip() else {})


def _filled(question: Question, posted: Posted) -> Any:
    value, told = schemaform.read(schemaform.fill(question.fields, posted))
    for field in schemaform.wrong(told):
        raise BadInput(f"{field.label}: {field.error}", hint="Correct it and send it again.")
    return value


def _wrapped(question: Question, value: Any) -> dict[str, Any]:
    """Return a value as a response. A requested one is unwrapped by ADK, which reads JSON in a text that is alone."""
    if isinstance(value, dict):
        return {"result": value} if question.is_input and set(value) == {"result"} else value
    if isinstance(value, str) and question.is_input and question.wants_text and _is_json(value):
        return {"result": json.dumps(value)}
    return {"result": value}


def _is_json(text: str) -> bool:
    """Tell whether ADK would read a text as another value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"The answer is no JSON. {schemaform.json_problem(error)}", hint="Correct it and send it again."
        ) from error
