"""Page of a model call: the request, the response, and the difference from the previous call."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, ModelCall
from tests.fake_models import ScriptedModel, call
from tests.pages.html import Element, parse


def count(city: str) -> str:
    """Count the people of a city."""
    return f"{city}: 3"


@pytest.fixture
async def session_pk(ask) -> int:
    """A session of two turns, the second with another instruction and another tool. Its key."""
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hello"), instruction="Be kind."), "hi")
    model = ScriptedModel.saying(call("count", city="Rome"), "three")
    await ask(LlmAgent(name="ann", model=model, instruction="Be brief.", tools=[count]), "how many?")
    return await units_of_work.read(lambda: AgentSession.objects.get().pk)


async def page(address: str, **headers: str) -> Element:
    response = await AsyncClient().get(address, headers=headers)
    assert response.status_code == HTTPStatus.OK, response.content
    return parse(response.content.decode())


async def test_the_call_of_an_event_shows_all_that_was_sent(session_pk):
    result = await page(f"/sessions/id/{session_pk}/events/2/model/")
    body = result.one("div", "model-call")
    assert "Be kind." in body.text
    assert "hi" in body.text
    assert "hello" in body.text
    assert "The first call of ann in this session." in body.text


async def test_differences_from_the_previous_call_are_marked(session_pk):
    result = await page(f"/sessions/id/{session_pk}/events/4/model/")
    diff = result.one("ol", "value-diff")
    assert "Be kind." in diff.one("li", "removed").text
    assert "Be brief." in diff.one("li", "added").text
    assert [element.text.split()[0] for element in result.all("div", "stretch-added")] == ["added"]
    assert "how many?" in result.one("div", "stretch-added").text
    assert "new: count" in result.one("div", "model-call").text
    assert "1 content as before" in result.one("div", "model-call").text


async def test_an_event_that_no_model_wrote_names_the_calls_of_its_invocation(session_pk):
    result = await page(f"/sessions/id/{session_pk}/events/5/model/")
    assert "This event is what a tool answered" in result.one("div", "model-call").text
    assert len(result.one("ol", "call-list").all("li")) == 2


async def test_the_inspector_leads_to_it_without_scripts(session_pk):
    result = await page(f"/sessions/id/{session_pk}/?seq=2&tab=llm")
    tab = result.one("div", "tab-llm")
    assert tab.one("a").attrs["href"] == f"/sessions/id/{session_pk}/events/2/model/"


async def test_api_lists_calls_and_returns_one_completely(session_pk):
    listed = (await AsyncClient().get(f"/api/v1/sessions/{session_pk}/model-calls")).json()["items"]
    assert [call["number"] for call in listed] == [2, 1, 1]
    address = f"/api/v1/sessions/{session_pk}/model-calls/{listed[0]['id']}"
    whole = (await AsyncClient().get(address)).json()
    assert whole["before"] == listed[1]["id"]
    assert whole["request"]["contents"][0]["parts"] == [{"text": "hi"}]
    assert whole["responses"][0]["content"]["parts"] == [{"text": "three"}]
    missing = await AsyncClient().get(f"/api/v1/sessions/{session_pk}/model-calls/999999")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_htmx_is_sent_the_body_alone(session_pk):
    result = await page(
        f"/sessions/id/{session_pk}/events/2/model/", **{"HX-Request": "true", "HX-Target": "llm"}
    )
    assert not result.all("main")
    assert result.one("div", "model-call")


async def test_the_json_of_a_call_is_whole_or_a_piece(session_pk):
    pk = await units_of_work.read(lambda: ModelCall.objects.order_by("pk").last().pk)
    address = f"/sessions/id/{session_pk}/model-calls/{pk}/json/"
    data = json.loads((await AsyncClient().get(address)).content)
    assert [tool["name"] for tool in data["request"]["tools"]] == ["count"]
    assert data["responses"][0]["content"]["parts"] == [{"text": "three"}]
    piece = await AsyncClient().get(f"{address}?pointer=/model&base=/request&form=text")
    assert piece.content.decode() == "scripted"


async def test_a_call_of_another_session_is_refused(session_pk, ours):
    await ours.create_session(app_name="weather", user_id="ann", session_id="other")
    pk = await units_of_work.read(lambda: ModelCall.objects.first().pk)
    other = await units_of_work.read(lambda: AgentSession.objects.get(session_id="other").pk)
    assert (await AsyncClient().get(f"/sessions/id/{other}/model-calls/{pk}/")).status_code == 404


async def test_call_needs_constant_queries_for_any_session_length(
    session_pk, ask, django_assert_max_num_queries
):
    def get() -> None:
        with django_assert_max_num_queries(16):
            assert Client().get(f"/sessions/id/{session_pk}/events/2/model/").status_code == HTTPStatus.OK

    await sync_to_async(get)()


async def test_page_shows_cached_tokens_and_cache_metadata(ask):
    class Cached(ScriptedModel):
        async def generate_content_async(self, llm_request, stream=False):
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=900,
                cached_content_token_count=700,
                candidates_token_count=3,
                total_token_count=903,
            )
            cache = CacheMetadata(
                cache_name="projects/p/cachedContents/7",
                expire_time=2e9,
                fingerprint="f1",
                invocations_used=2,
                contents_count=4,
            )
            yield LlmResponse(
                content=types.Content(role="model", parts=[types.Part(text="hi")]),
                usage_metadata=usage,
                cache_metadata=cache,
            )

    await ask(LlmAgent(name="ann", model=Cached.saying()))
    session_pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)
    text = (await page(f"/sessions/id/{session_pk}/events/2/model/")).one("div", "model-call").text
    assert "900 in (700 cached)" in text
    for expected in ("projects/p/cachedContents/7", "invocations_used", "contents_count", "expire_time"):
        assert expected in text
