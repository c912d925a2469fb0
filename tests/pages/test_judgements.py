"""Judging an event on the session page."""

from __future__ import annotations

import pytest
from django.test import Client

from sessions_app.sessions import judgements
from sessions_app.store.models import EventJudgement
from tests.pages.client import Get
from tests.pages.html import parse
from tests.timeline.story import Story


@pytest.fixture
def story(db: None) -> Story:
    """A session of a question and its answer, event 2."""
    story = Story()
    story.asks("Weather in Paris?")
    story.says("It is sunny.", turnComplete=True)
    return story


def judge_path(story: Story, seq: int = 2) -> str:
    return f"/sessions/id/{story.pk}/events/{seq}/judge/"


def judged() -> list[tuple[int, str, str]]:
    return list(EventJudgement.objects.values_list("seq", "verdict", "note"))


def test_button_of_the_inspector_judges_at_once(story: Story, client: Client, get: Get):
    inspector = get(f"/sessions/id/{story.pk}/?seq=2").one("section", css="inspector")
    form = next(form for form in inspector.all("form") if form.all("button", data_judge="bad"))
    button = form.one("button", data_judge="bad")
    response = client.post(form.attrs["action"], {button.attrs["name"]: button.attrs["value"]})
    assert (response.status_code, response["Location"]) == (302, "/sessions/weather/ann/s1/?seq=2")
    assert judged() == [(2, "bad", "")]
    inspector = get(f"/sessions/id/{story.pk}/?seq=2").one("section", css="inspector")
    assert not inspector.all("button", data_judge="bad")
    assert inspector.one("div", css="judgement").one("span", css="badge").text == "bad"


def test_judgement_is_shown_with_icon_word_note_person_and_time(story: Story, get: Get):
    judgements.judge(story.pk, 2, "bad", "<b>It rains</b>\u202e", person="bob")
    row = get(f"/sessions/id/{story.pk}/").one("article", data_seq="2").one("div", css="judgement")
    assert row.one("span", css="badge").text == "bad"
    assert row.one("span", css="badge").one("use").attrs["href"].endswith("#bad")
    assert "<b>It rains</b>" in row.one("span", css="judgement-note").text
    assert not row.all("b")
    assert row.one("span", css="person").one("bdi").text == "bob"
    assert row.one("time")
    part = get(f"/sessions/id/{story.pk}/", target="window")
    assert part.one("article", data_seq="2").one("div", css="judgement").text == row.text


def test_form_changes_and_withdraws_a_judgement(story: Story, client: Client, get: Get):
    judgements.judge(story.pk, 2, "bad", "It rains.")
    page = get(judge_path(story))
    dialog = get(judge_path(story), target="dialog-content")
    assert page.one("textarea").text == dialog.one("textarea").text == "It rains."
    assert "hx-post" in dialog.one("form").attrs
    assert "hx-post" not in page.one("main").one("form").attrs
    assert [box.attrs["value"] for box in dialog.all("input") if "checked" in box.attrs] == ["bad"]
    client.post(judge_path(story), {"verdict": "good", "note": "It was noon."})
    assert judged() == [(2, "good", "It was noon.")]
    client.post(judge_path(story), {"withdraw": "1", "verdict": "good", "note": "It was noon."})
    assert judgements.find_judgement(story.pk, 2) is None
    assert not get(judge_path(story)).all("button", name="withdraw")
    assert client.post(judge_path(story), {"withdraw": "1"}).status_code == 404


def test_htmx_gets_what_changes_in_the_timeline(story: Story, client: Client):
    headers = {"HX-Request": "true", "HX-Target": "dialog-content"}
    response = client.post(judge_path(story), {"verdict": "bad", "note": "It rains."}, headers=headers)
    assert response["HX-Reswap"] == "none"
    assert response["HX-Trigger-After-Swap"] == "done, judged"
    change = parse(response.content).one("template", data_seq="2")
    assert change.one("span", css="judgement-note").text == "It rains."
    response = client.post(judge_path(story), {"withdraw": "1"}, headers=headers)
    assert not parse(response.content).one("template", data_seq="2").all("div")


def test_wrong_answer_is_judged_bad_and_leads_to_its_case(story: Story, client: Client, get: Get):
    inspector = get(f"/sessions/id/{story.pk}/?seq=2").one("section", css="inspector")
    (form,) = [form for form in inspector.all("form") if form.text == "This answer was wrong"]
    response = client.post(form.attrs["action"], {"verdict": "bad"})
    assert (response.status_code, response["Location"]) == (
        302,
        f"/evals/record/?session={story.pk}&wrong=2",
    )
    assert judged() == [(2, "bad", "")]
    judgements.judge(story.pk, 2, "bad", "It rains.", person="ann")
    response = client.post(form.attrs["action"], {"verdict": "bad"}, headers={"HX-Request": "true"})
    assert response["HX-Redirect"] == f"/evals/record/?session={story.pk}&wrong=2"
    assert judged() == [(2, "bad", "It rains.")]


def test_line_end_of_a_note_counts_as_one_character(story: Story, client: Client):
    note = "\n".join(["x" * 999, "y" * 1_000])
    response = client.post(judge_path(story), {"verdict": "bad", "note": note.replace("\n", "\r\n")})
    assert response.status_code == 302
    assert judged() == [(2, "bad", note)]


def test_judgement_leads_to_no_other_site(story: Story, client: Client):
    response = client.post(f"{judge_path(story)}?next=https://example.org/", {"verdict": "bad"})
    assert response["Location"] == "/sessions/weather/ann/s1/?seq=2"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"verdict": "", "note": "It rains."}, "Choose “good” or “bad”."),
        ({"verdict": "odd"}, "odd"),
        ({"verdict": "bad", "note": "x" * 2_001}, "at most 2000 characters"),
    ],
)
def test_invalid_judgement_comes_back_with_its_error(story: Story, client: Client, form: dict, message: str):
    response = client.post(judge_path(story), form)
    assert response.status_code == 422
    page = parse(response.content)
    assert message in page.one("main").text
    assert page.one("textarea").text == form.get("note", "")
    assert judged() == []


def test_unknown_event_cannot_be_judged(story: Story, client: Client):
    assert client.get(judge_path(story, 3)).status_code == 404
    assert client.post(judge_path(story, 3), {"verdict": "bad"}).status_code == 404
    assert client.post("/sessions/id/999/events/1/judge/", {"verdict": "bad"}).status_code == 404
    assert judged() == []


def test_session_page_with_judgements_makes_no_further_query(
    story: Story, client: Client, django_assert_max_num_queries
):
    for seq in (1, 2):
        judgements.judge(story.pk, seq, "bad", "It rains.")
    with django_assert_max_num_queries(20):
        client.get(f"/sessions/id/{story.pk}/?seq=2")
