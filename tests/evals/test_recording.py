"""Cases made of sessions: of a part of a session with its initial state, and of several sessions."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from google.genai import types

from evals_app.cases import session_cases
from sessions_app.adk import DjangoSessionService
from sessions_app.branches.rewind import rewind
from sessions_app.runs import runtime_client as runs
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.scopes import EVALUATION_KEY
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.writes import edit_state
from tests.evals.api_requests import get_json
from tests.evals.builders import case, evalset, turn, write
from tests.evals.conversation_runtime import ConversationRuntime
from tests.evals.form_filling import Browser
from tests.sessions.build import event

OWNER = {"app_name": "counter", "user_id": "ann"}
TOKEN = {"auth_type": "oauth2", "oauth2": {"client_id": "c", "access_token": "secret-of-ann"}}


@pytest.fixture
def browser(web, folder):
    write(
        folder.path,
        "set.evalset.json",
        json.dumps(evalset(case("one", turn("x")), eval_set_id="set"), indent=1),
    )
    runs.register(ConversationRuntime())
    return Browser(web)


async def append_turn(service, session, number, **delta):
    """Append a turn: the user's message, a call of a tool that writes state, the answer."""
    of = {"invocation_id": f"i{number}"}
    message = event(author="user", **of)
    message.content = types.Content(role="user", parts=[types.Part(text=f"question {number}")])
    await service.append_event(session, message)
    call = event(author="counter", **of)
    call.content = types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(id=f"c{number}", name="count", args={"by": number}))
        ],
    )
    await service.append_event(session, call)
    answer = event(f"answer {number}", delta, author="counter", **of)
    await service.append_event(session, answer)


@pytest.fixture
async def session(store):
    service = DjangoSessionService()
    new_session = await service.create_session(**OWNER, session_id="s1", state={"n": 0, "user:tier": "gold"})
    for number in (1, 2, 3):
        other = await service.create_session(**OWNER, session_id=f"other{number}")
        await append_turn(service, other, number, **{"user:seen": number})
        await append_turn(service, new_session, number, **{"n": number, "app:all": number})
    return await units_of_work.read(AgentSession.objects.get, session_id="s1")


class AnswerField(NamedTuple):
    """A field for the expected answer of a turn."""

    name: str
    value: str


def answer_fields(page):
    fields = [area for area in page.all("textarea") if area.attrs["name"].startswith("answer.")]
    return [AnswerField(area.attrs["name"], area.text) for area in fields]


def newest_case(folder):
    return json.loads((folder.path / "set.evalset.json").read_text())["eval_cases"][-1]


async def test_part_of_session_becomes_case_with_its_start_state(browser, session, folder):
    page = await browser.get(f"/evals/record/?session={session.pk}&first=i2")
    assert page.one("input", name="case_id").attrs["value"] == "question-2"
    await browser.send("choose", last="i2")
    keys = [field.attrs["value"] for field in browser.page.all("input", name="key")]
    assert keys == ["app:all", "n"]
    marks = browser.page.one("fieldset", css="state-keys").all("abbr", css="scope")
    assert [mark.text for mark in marks] == ["A", "S"]
    assert browser.page.one("details", css="app-switcher").one("summary").text == "counter"
    await browser.send("review", target="set", case_id="second", key=keys, turn_states="1")
    before = (folder.path / "set.evalset.json").read_text()
    await browser.save()
    new_case = newest_case(folder)
    assert (folder.path / "set.evalset.json").read_text().startswith(before[:-8].rstrip())
    assert new_case["eval_id"] == "second"
    assert new_case["session_input"] == {
        "app_name": "counter",
        "user_id": "ann",
        "state": {"n": 1, "user:tier": "gold", "user:seen": 2, "app:all": 1},
    }
    (only,) = new_case["conversation"]
    assert only["user_content"]["parts"] == [{"text": "question 2"}]
    assert only["final_response"]["parts"] == [{"text": "answer 2"}]
    call, *_ = only["intermediate_data"]["invocation_events"]
    assert call["content"]["parts"][0]["function_call"]["args"] == {"by": 2}
    assert new_case["final_session_state"] == {"n": 2, "app:all": 2}
    assert new_case["devui_turn_states"] == [{"n": 2, "app:all": 2}]


async def test_part_of_a_session_is_drafted_by_api_and_nothing_saved(web, browser, session, folder):
    before = (folder.path / "set.evalset.json").read_text()
    whole = await get_json(web, f"/cases/draft?session={session.pk}")
    assert len(whole["conversation"]) == 3
    part = await get_json(web, f"/cases/draft?session={session.pk}&first=i2&last=i2")
    assert part["conversation"] == [whole["conversation"][1]]
    assert part["session_input"]["state"] == {"n": 1, "user:tier": "gold", "user:seen": 2, "app:all": 1}
    assert (folder.path / "set.evalset.json").read_text() == before
    await get_json(web, "/cases/draft?session=404", 404)


async def test_case_from_attempt_omits_state_of_adks_evaluation(browser, session, folder):
    service = DjangoSessionService()
    whole = await service.get_session(**OWNER, session_id="s1")
    await append_turn(service, whole, 4, **{EVALUATION_KEY: "an id", "n": 4})
    await append_turn(service, whole, 5)
    await browser.get(f"/evals/record/?session={session.pk}&first=i5")
    await browser.send("review", target="set")
    await browser.save()
    state = newest_case(folder)["session_input"]["state"]
    assert state["n"] == 4
    assert EVALUATION_KEY not in state


async def test_unexpected_fields_are_omitted(browser, session, folder):
    await browser.get(f"/evals/record/?session={session.pk}")
    turns = [field.attrs["value"] for field in browser.page.all("input", name="turn")]
    form = {"session": session.pk, "target": "set", "action": "review", "case_id": "bare", "turn": turns}
    response = await browser.web.post("/evals/record/", form)
    position = browser._shown("/evals/record/", response, 200).one("button", name="seen").attrs["value"]
    await browser.web.post("/evals/record/", {**form, "seen": position})
    new_case = newest_case(folder)
    assert len(new_case["conversation"]) == 3
    assert not any(
        {"final_response", "intermediate_data"} & turn_json.keys() for turn_json in new_case["conversation"]
    )
    assert not {"final_session_state", "devui_turn_states"} & new_case.keys()


async def test_case_ends_with_the_turn_that_it_was_opened_from(browser, session):
    page = await browser.get(f"/evals/record/?session={session.pk}&last=i2")
    assert [field.name for field in answer_fields(page)] == [
        f"answer.{field.attrs['value']}" for field in page.all("input", name="turn")
    ]
    assert [field.value for field in answer_fields(page)] == ["answer 1", "answer 2"]


async def test_expected_answer_is_edited_before_it_is_saved(browser, session, folder):
    page = await browser.get(f"/evals/record/?session={session.pk}&first=i3")
    (field,) = answer_fields(page)
    await browser.send("review", target="set", **{field.name: "answer three"})
    assert [field.value for field in answer_fields(browser.page)] == ["answer three"]
    await browser.save()
    (only,) = newest_case(folder)["conversation"]
    assert only["final_response"]["parts"] == [{"text": "answer three"}]
    assert only["intermediate_data"]["invocation_events"]


async def test_tool_call_that_is_not_kept_is_not_expected(browser, session, folder):
    page = await browser.get(f"/evals/record/?session={session.pk}&first=i2")
    first_call, _ = [box for box in page.all("input") if box.attrs.get("name", "").startswith("call.")]
    assert "count(by=2)" in page.text
    await browser.send("review", target="set", **{first_call.attrs["name"]: []})
    await browser.save()
    without, unchanged = newest_case(folder)["conversation"]
    assert without["final_response"]["parts"] == [{"text": "answer 2"}]
    assert "intermediate_data" not in without
    assert unchanged["intermediate_data"]["invocation_events"]


async def test_huge_number_of_a_tool_call_keeps_none(browser, session, folder):
    page = await browser.get(f"/evals/record/?session={session.pk}&first=i3")
    (name,) = [field.attrs["name"] for field in page.all("input") if "call." in field.attrs.get("name", "")]
    await browser.send("review", target="set", **{name: "9" * 5_000})
    await browser.save()
    (only,) = newest_case(folder)["conversation"]
    assert "intermediate_data" not in only


async def test_wrong_answer_asks_for_the_right_one(browser, session, folder):
    seq = await units_of_work.read(
        lambda: Event.objects.get(session=session, invocation_id="i2", is_final=True, author="counter").seq
    )
    page = await browser.get(f"/evals/record/?session={session.pk}&wrong={seq}")
    assert [field.value for field in answer_fields(page)] == [""]
    assert page.one("fieldset", css="is-wrong").one("span", css="soft").text == "answer 2"
    assert "autofocus" in page.one("fieldset", css="is-wrong").one("textarea").attrs
    page = await browser.send("review", status=422, target="set")
    (field,) = answer_fields(page)
    assert page.one("textarea", name=field.name).attrs["aria-invalid"] == "true"
    assert not page.all("button", name="seen")
    page = await browser.send("review", target="set", **{field.name: "−3 °C"})
    assert "autofocus" not in page.one("fieldset", css="is-wrong").one("textarea").attrs
    await browser.save()
    (only,) = newest_case(folder)["conversation"]
    assert only["final_response"]["parts"] == [{"text": "−3 °C"}]
    assert newest_case(folder)["session_input"]["state"]["n"] == 1


async def test_earlier_turns_can_be_put_before_a_wrong_answer(browser, session):
    page = await browser.get(f"/evals/record/?session={session.pk}&wrong=5&first=i1")
    assert [field.value for field in answer_fields(page)] == ["answer 1", ""]


async def test_several_sessions_become_cases_of_a_new_evalset_at_once(browser, session, folder):
    others = await units_of_work.read(
        lambda: list(AgentSession.objects.order_by("session_id").values_list("pk", flat=True))
    )
    query = "&".join(f"session={pk}" for pk in others)
    await browser.get(f"/evals/record/?{query}")
    await browser.send("review", target="", new_id="all-of-them")
    removed, lines = browser.diff()
    assert not removed
    assert not (folder.path / "all-of-them.evalset.json").exists(), "only shown as yet"
    page = await browser.save()
    assert "Saved 4 cases: question-1, question-2, question-3, question-4 to the file." in page.text
    assert (folder.path / "all-of-them.evalset.json").read_text().split() == " ".join(lines).split()
    cases = json.loads((folder.path / "all-of-them.evalset.json").read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["question-1", "question-2", "question-3", "question-4"]
    assert [case["final_session_state"] for case in cases][:2] == [{"user:seen": 1}, {"user:seen": 2}]


async def test_existing_evalset_id_is_reported_before_preview(browser, session):
    await browser.get(f"/evals/record/?session={session.pk}")
    page = await browser.send("review", status=400, target="", new_id="set")
    assert "EvalSet set already exists" in page.text
    assert not page.all("button", name="seen")


async def test_existing_case_id_is_named_as_in_the_file(browser, session):
    await browser.get(f"/evals/record/?session={session.pk}")
    await browser.send("review", target="set", case_id="one")
    page = await browser.save()
    assert "Saved case one-2 to the file." in page.text


async def test_similar_sessions_get_distinct_ids(browser, session):
    service = DjangoSessionService()
    twin = await service.create_session(**OWNER, session_id="twin")
    await append_turn(service, twin, 1)
    also = await units_of_work.read(AgentSession.objects.get, session_id="twin")
    page = await browser.get(f"/evals/record/?session={session.pk}&session={also.pk}")
    assert [field.attrs["value"] for field in page.all("input", name="case_id")] == [
        "question-1",
        "question-2",
    ]
    assert {"s1", "twin"} <= {name.text for name in page.all("bdi", css="mono")}


async def test_rewound_turns_and_edits_are_left_out(browser, session):
    await units_of_work.write(lambda: rewind(session.pk, invocation_id="i3"))
    await units_of_work.write(edit_state, SessionKey("", "counter", "ann", "s1"), {"n": 9})
    page = await browser.get(f"/evals/record/?session={session.pk}")
    assert [option.attrs["value"] for option in page.one("select", id="first").all("option")] == ["i1", "i2"]


async def test_credentials_are_never_written_to_a_file(browser, session, folder):
    service = DjangoSessionService()
    whole = await service.get_session(**OWNER, session_id="s1")
    await append_turn(service, whole, 4, token=TOKEN, n=4)
    await browser.get(f"/evals/record/?session={session.pk}&first=i4")
    assert [field.attrs["value"] for field in browser.page.all("input", name="key")] == ["n"]
    await browser.send("review", target="set", turn_states="1", key=["n", "token"])
    await browser.save()
    assert "secret-of-ann" not in (folder.path / "set.evalset.json").read_text()


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 400, "No session is named"),
        ("session=x", 400, "No session is named"),
        ("session=999999", 404, "Session not found"),
        ("&".join(f"session={pk}" for pk in range(60)), 400, "too many"),
    ],
)
async def test_unrecordable_session_is_refused(browser, query, status, why):
    assert why in (await browser.get(f"/evals/record/?{query}", status=status)).text


async def test_reversed_range_and_empty_session_are_refused(browser, session):
    response = await browser.web.post(
        "/evals/record/",
        {"session": session.pk, "first": "i3", "last": "i1", "target": "set", "action": "review"},
    )
    assert response.status_code == 400
    assert "ends before it begins" in response.content.decode()
    await DjangoSessionService().create_session(**OWNER, session_id="empty")
    empty = await units_of_work.read(AgentSession.objects.get, session_id="empty")
    assert (
        "This session has no messages yet" in (await browser.get(f"/evals/record/?session={empty.pk}")).text
    )
    response = await browser.web.post(
        "/evals/record/", {"session": empty.pk, "target": "set", "action": "review"}
    )
    assert response.status_code == 400
    response = await browser.web.post(
        "/evals/record/", {"session": [session.pk, empty.pk], "target": "set", "action": "review"}
    )
    assert response.status_code == 400
    assert "in session &#x27;empty&#x27; makes a turn" in response.content.decode()


async def test_unreachable_agent_is_reported_and_form_remains(web, folder, session):
    write(folder.path, "set.evalset.json", evalset(eval_set_id="set"))
    browser = Browser(web)
    await browser.get(f"/evals/record/?session={session.pk}")
    first = (await units_of_work.read(session_cases.find_turns, session))[0].first
    written = {"turn": str(first), f"answer.{first}": "the right one", f"call.{first}": "1"}
    page = await browser.send("review", status=503, target="set", case_id="kept", **written)
    assert page.one("input", name="case_id").attrs["value"] == "kept"
    assert page.one("textarea", name=f"answer.{first}").text == "the right one"
    assert page.one("input", name=f"call.{first}").attrs["value"] == "1"
