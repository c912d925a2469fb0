"""From an attempt to its case: edit the case, accept what the attempt answered, run the case again."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from evals_app.cases.accepted_answers import accept_actual
from evals_app.models import EvalAttempt
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from tests.evals.builders import case, text, turn
from tests.evals.conftest import RIGHT, WRONG, wait_until_settled
from tests.evals.form_filling import Browser
from tests.evals.web_pages import get_page, start_run

SMOKE = "/evals/counter/smoke/"


def accept(cases, actual, case_id="one", *, with_calls=True):
    accept_actual(cases, case_id, None, actual, author="counter", with_calls=with_calls)
    return cases[0]["conversation"]


def test_answer_and_calls_become_the_expected_ones():
    cases = [case("one", turn("hi", "yo", WRONG), turn("bye", "ciao"), final_session_state={"n": 1})]
    conversation = accept(cases, [turn("hi", "good day", RIGHT), turn("bye", "adieu", RIGHT)])
    assert conversation == [turn("hi", "good day", RIGHT), turn("bye", "adieu", RIGHT)]
    assert cases[0]["final_session_state"] == {"n": 1}


def test_calls_that_nobody_judges_are_not_accepted():
    assert accept([case("one", turn("hi", "yo"))], [turn("hi", "yes", RIGHT)], with_calls=False) == [
        turn("hi", "yes")
    ]


def test_turn_that_was_not_reached_or_not_answered_stays():
    cases = [case("one", turn("hi", "yo"), turn("bye", "ciao"), turn("and?", "no"))]
    conversation = accept(cases, [turn("hi", "good day"), turn("bye")])
    assert conversation == [turn("hi", "good day"), turn("bye", "ciao"), turn("and?", "no")]


def test_thoughts_of_an_attempt_are_not_expected():
    actual_turn = turn("hi", "good day")
    actual_turn["final_response"]["parts"].insert(0, {"text": "hm", "thought": True})
    assert accept([case("one", turn("hi", "yo"))], [actual_turn]) == [turn("hi", "good day")]


@pytest.mark.parametrize(
    ("cases", "error", "why"),
    [
        ([case("two", turn("hi"))], NotFound, "any more"),
        ([case("one", turn("hello"))], BadInput, "other messages"),
        ([case("one")], BadInput, "no turn"),
    ],
)
def test_answer_to_another_conversation_is_refused(cases, error, why):
    before = json.dumps(cases)
    with pytest.raises(error, match=why):
        accept(cases, [{"user_content": text("hi")}])
    assert json.dumps(cases) == before


@pytest.fixture
async def failed(web, process, smoke):
    """A failed attempt of a run that has ended."""
    await start_run(web)
    await wait_until_settled()
    return await units_of_work.read(EvalAttempt.objects.get, case_id="bad <script>")


def action_links(page):
    return {link.text: link.attrs["href"] for link in page.one("article", css="attempt").all("a")}


async def test_answer_of_a_failed_attempt_is_accepted_after_review(web, failed, smoke):
    links = action_links(await get_page(web, f"/evals/runs/{failed.run_id}/?attempt={failed.pk}"))
    browser, before = Browser(web), smoke.read_text()
    page = await browser.get(links["Accept this answer"])
    assert smoke.read_text() == before
    removed, added = browser.diff()
    assert any("It rains." in line for line in removed)
    assert any("It is sunny <i>in</i> Oslo." in line for line in added)
    page = await browser.save()
    assert page.one("button", name="case").attrs["value"] == "bad <script>"
    assert links_to_attempt(page, failed)
    saved = json.loads(smoke.read_text())["eval_cases"][1]["conversation"]
    assert saved == [turn("Oslo", "It is sunny <i>in</i> Oslo.", RIGHT)]


def links_to_attempt(page, attempt):
    return [
        a for a in page.all("a") if a.attrs["href"] == f"/evals/runs/{attempt.run_id}/?attempt={attempt.pk}"
    ]


async def test_case_is_edited_from_its_attempt_and_leads_back(web, failed, smoke):
    links = action_links(await get_page(web, f"/evals/runs/{failed.run_id}/?attempt={failed.pk}"))
    browser = Browser(web)
    page = await browser.get(links["Edit this case"])
    assert page.one("input", name="case_id").attrs["value"] == "bad <script>"
    assert [link.text for link in links_to_attempt(page, failed)] == ["Cancel"]
    await browser.send("review", turns__0__answer="It snows.")
    page = await browser.save()
    assert [link.text for link in links_to_attempt(page, failed)] == ["Back to the attempt"]
    assert "It snows." in smoke.read_text()


async def test_only_a_failed_answer_can_be_accepted(web, failed):
    good = await units_of_work.read(EvalAttempt.objects.get, case_id="good")
    links = action_links(await get_page(web, f"/evals/runs/{good.run_id}/?attempt={good.pk}"))
    assert "Edit this case" in links
    assert "Accept this answer" not in links


@pytest.mark.parametrize("attempt", ["", "x", "999999", "9" * 40])
async def test_unknown_attempt_is_refused(web, failed, attempt):
    browser = Browser(web)
    page = await browser.get(f"{SMOKE}change/?action=accept&attempt={quote(attempt)}", status=404)
    assert not page.all("button", name="seen")
    await browser.get(f"{SMOKE}case/?id=good&attempt={quote(attempt)}")
