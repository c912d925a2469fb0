"""The scripted model of the examples answers with its first matching rule."""

from __future__ import annotations

import asyncio
import importlib.util
import sys

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from tests.examples.conftest import AGENTS

_spec = importlib.util.spec_from_file_location("tests.examples.scripted_model", AGENTS / "scripted_model.py")
assert _spec is not None
assert _spec.loader is not None
scripted = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(scripted)
Rule, think = scripted.Rule, scripted.think

RESULT = types.Part(function_response=types.FunctionResponse(name="look", response={"found": "a key"}))


def _model(*rules: object) -> BaseLlm:
    model = scripted.ScriptedLlm(rules=list(rules))
    assert isinstance(model, BaseLlm)
    return model


def _user(*parts: str | types.Part) -> types.Content:
    message_parts = [part if isinstance(part, types.Part) else types.Part(text=part) for part in parts]
    return types.Content(role="user", parts=message_parts)


async def _ask(
    model: BaseLlm, *contents: types.Content, stream: bool = False, instruction: str = ""
) -> list[LlmResponse]:
    config = types.GenerateContentConfig(system_instruction=instruction)
    request = LlmRequest(contents=list(contents), config=config)
    return [response async for response in model.generate_content_async(request, stream)]


async def _text(model: BaseLlm, *contents: types.Content, instruction: str = "") -> str:
    (response,) = await _ask(model, *contents, instruction=instruction)
    return _part(response).text or ""


def _part(response: LlmResponse) -> types.Part:
    assert response.content is not None
    assert response.content.parts
    return response.content.parts[0]


async def test_the_first_rule_that_fits_answers() -> None:
    model = _model(Rule("cat", "miau"), Rule("dog", "woof"), Rule(reply="?"))
    assert await _text(model, _user("A DOG")) == "woof"
    assert await _text(model, _user("a cow")) == "?"


async def test_a_tool_result_is_answered_by_the_rule_for_that_tool_only() -> None:
    rule = Rule(after="look", reply=lambda turn: f"It is {turn.result['found']}.")
    model = _model(Rule("where", "I will look."), rule)
    assert await _text(model, _user("where?"), _user(RESULT)) == "It is a key."


async def test_a_new_message_makes_earlier_tool_results_old() -> None:
    model = _model(Rule(after="look", reply="wrong"), Rule("thanks", "right"))
    assert await _text(model, _user("where?"), _user(RESULT), _user("thanks")) == "right"


async def test_messages_of_other_agents_are_not_the_users() -> None:
    model = _model(Rule("context", "wrong"), Rule("tea", "right"))
    assert await _text(model, _user("tea"), _user("For context: …", "[planner] said: …")) == "right"


async def test_message_without_text_is_not_answered_as_the_previous_one() -> None:
    model = _model(Rule("tea", "wrong"), Rule(reply="right"))
    file = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))
    assert await _text(model, _user("tea"), _user(file)) == "right"


async def test_the_lines_of_the_instruction_are_facts() -> None:
    model = _model(Rule(reply=lambda turn: f"{turn.facts['user name']}|{turn.facts['last city']}"))
    instruction = "Be kind.\n\nuser name: Aya\nlast city: \n"
    assert await _text(model, _user("hi"), instruction=instruction) == "Aya|"


async def test_tokens_are_counted_and_add_up() -> None:
    model = _model(Rule(reply=[think("hm, well"), "four"]))
    (response,) = await _ask(model, _user("12345678"), instruction="1234")
    usage = response.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.thoughts_token_count, usage.candidates_token_count) == (3, 2, 1)
    assert usage.total_token_count == 6


async def test_thoughts_stream_before_the_text() -> None:
    model = _model(Rule(reply=[think("one two three"), "four five six"]))
    *chunks, whole = await _ask(model, _user("go"), stream=True)
    assert whole.partial is None
    assert whole.usage_metadata is not None
    assert all(chunk.partial and chunk.usage_metadata is None for chunk in chunks)
    assert [bool(_part(chunk).thought) for chunk in chunks] == [True] * 3 + [False] * 3
    assert "".join(_part(chunk).text or "" for chunk in chunks) == "one two threefour five six"


async def test_the_pause_before_a_chunk_is_set_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setenv("DEVUI_EXAMPLE_DELAY_MS", "250")
    await _ask(_model(Rule(reply="three little words")), _user("go"), stream=True)
    assert pauses == [0.25] * 3


async def test_a_message_without_a_rule_is_an_error_that_names_it() -> None:
    with pytest.raises(LookupError, match="No rule of scripted-1 answers 'Sing!'"):
        await _ask(_model(Rule("talk", "No.")), _user("Sing!"))
