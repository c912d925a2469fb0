"""The page of a playground run that is polled: what is opened stays open, and a deleted session is reported."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import expect

from evals_app.models import PlaygroundAnswer, PlaygroundRun
from evals_app.playground import runs
from evals_app.playground.columns import draft_request, parse_draft
from sessions_app.sessions import deletion
from sessions_app.store.models import ModelCall
from tests.browser import OpenWindow
from tests.pages.html import parse
from tests.timeline.story import Story

REQUEST = {"model": "m", "contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "config": {}}
"""The request of the column. The recorded one has no contents."""

POLL = {"HX-Request": "true", "HX-Target": "playground-answers"}

pytestmark = pytest.mark.usefixtures("store")


def think(*texts: str) -> str:
    """Return the stored responses of a model that has these thoughts."""
    return json.dumps(
        [{"content": {"role": "model", "parts": [{"text": text, "thought": True} for text in texts]}}]
    )


@pytest.fixture
def run() -> PlaygroundRun:
    """A run with a changed request, whose model is thinking."""
    story = Story()
    story.asks("Hello")
    call = ModelCall.objects.create(
        session_id=story.pk,
        invocation_id="i1",
        ref="r1",
        number=1,
        agent="a",
        model="m",
        started_at=1.0,
        finished_at=2.0,
        request="{}",
    )
    run = runs.create_run(call, [parse_draft(draft_request(REQUEST, {}), {})])
    PlaygroundAnswer.objects.update(status="running", response=think("First,"))
    return run


def run_address(run: PlaygroundRun) -> str:
    names = {"pk": run.session_id, "call": run.call_id, "run": run.pk}
    return reverse("playground-run", kwargs=names)


@pytest.mark.parametrize(
    ("delete", "message"),
    [
        (lambda run: deletion.delete([run.session_id]), "The session of this run was deleted."),
        (lambda run: deletion.delete_for_good(run.session_id), "The session of this run was deleted."),
        (runs.delete_run, "This run was deleted."),
    ],
)
def test_poll_of_a_deleted_run_says_so_and_ends(
    client: Client, run: PlaygroundRun, delete: Callable[[PlaygroundRun], None], message: str
):
    address = run_address(run)
    assert "hx-trigger" in client.get(address, headers=POLL).content.decode()
    delete(run)
    response = client.get(address, headers=POLL)
    assert response.status_code == 200
    assert parse(response.content).one(role="status").one("strong").text == message
    assert "hx-trigger" not in response.content.decode()
    assert client.get(address).status_code == 404


@pytest.mark.browser
@pytest.mark.soak
def test_details_of_a_running_answer_stay_as_the_reader_left_them(
    open_window: OpenWindow, server: str, run: PlaygroundRun
):
    page = open_window(server).new_page()
    page.goto(run_address(run))
    answers = page.locator("#playground-answers")
    answers.get_by_text("Changed:").click()
    answers.get_by_text("Thoughts").click()
    for text in ("First, then", "First, then last"):
        PlaygroundAnswer.objects.update(response=think(text))
        expect(answers.get_by_text(text, exact=True)).to_be_visible()
        expect(answers.locator("details[open]")).to_have_count(2)
    expect(answers.get_by_text("Thoughts")).to_be_focused()
    answers.get_by_text("Thoughts").click()
    PlaygroundAnswer.objects.update(status="done", response=think("At last"))
    expect(answers.locator("[data-status=done]")).to_be_visible()
    expect(answers.locator("details[open]")).to_have_count(1)


@pytest.mark.browser
@pytest.mark.soak
def test_page_of_a_run_reports_that_its_session_was_deleted_elsewhere(
    open_window: OpenWindow, server: str, run: PlaygroundRun
):
    page = open_window(server).new_page()
    page.goto(run_address(run))
    expect(page.locator("[data-status=running]")).to_be_visible()
    deletion.delete([run.session_id])
    expect(page.locator("#playground-answers")).to_contain_text("was deleted")
    expect(page.locator("[data-status=running]")).to_have_count(0)
