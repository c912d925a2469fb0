"""Pages for rewinding, forking and comparing sessions."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from django.test import Client

from sessions_app.branches.fork import NewFork, fork
from sessions_app.paths import session_url
from sessions_app.runs import lifecycle
from sessions_app.sessions import deletion, purge
from sessions_app.store.models import AgentSession, Event, UserState
from sessions_app.store.sessions import lineage
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(db: None) -> Story:
    """A session of two invocations: events 1 and 2, then 3 to 6."""
    story = Story(initial={"seed": 1, "user:tier": "free"})
    story.asks("Weather in Paris?")
    story.says("Sunny.", delta={"city": "Paris"})
    story.invocation = "i2"
    story.asks("And in Rome?")
    story.calls("get_weather", "c1", city="Rome")
    story.answers("get_weather", "c1", delta={"city": "Rome", "late": 1, "user:tier": "gold"})
    story.says("Rainy.")
    return story


def link(tree: Element, text: str) -> Element:
    return next(a for a in tree.all("a") if text in a.attrs.get("aria-label", a.text))


def rewind_page(story: Story, event: str = "e5") -> str:
    return f"/sessions/id/{story.pk}/rewind/?event={event}"


def test_an_open_event_offers_both(story: Story, get: Get):
    page = get(f"/sessions/id/{story.pk}/?seq=5")
    inspector = page.one("section", css="inspector")
    rewind, fork_link = (
        link(inspector, text) for text in ("Rewind to before this invocation", "Fork from here")
    )
    assert rewind.attrs["href"] == rewind.attrs["hx-get"] == rewind_page(story)
    assert fork_link.attrs["href"] == f"/sessions/id/{story.pk}/fork/?seq=5"
    assert rewind.attrs["hx-target"] == fork_link.attrs["hx-target"] == "#dialog-content"


def test_only_a_final_answer_can_have_been_wrong(story: Story, get: Get):
    def offers(seq: int) -> list[str]:
        page = get(f"/sessions/id/{story.pk}/?seq={seq}")
        actions = page.one("section", css="inspector").one("div", css="event-actions")
        links = [a.attrs["href"] for a in actions.all("a") if "evals/record" in a.attrs["href"]]
        return links + [
            form.attrs["action"] for form in actions.all("form") if form.text == "This answer was wrong"
        ]

    case_url, wrong_url = offers(6)
    assert case_url.startswith(f"/evals/record/?session={story.pk}&last=")
    case_of_wrong = quote(f"/evals/record/?session={story.pk}&wrong=6", safe="")
    assert wrong_url == f"/sessions/id/{story.pk}/events/6/judge/?next={case_of_wrong}"
    assert len(offers(4)) == 1
    [of_result, fixtures] = offers(5)
    assert of_result == offers(4)[0]
    assert fixtures.endswith("&fixtures=1")


def test_the_plan_of_a_rewind_is_a_page_and_a_dialog(story: Story, get: Get):
    page = get(rewind_page(story))
    dialog = get(rewind_page(story), target="dialog-content")
    assert page.one("form", css="branch-plan").text == dialog.one("form", css="branch-plan").text
    assert not dialog.all("html")


def test_rewind_preview_lists_changed_and_unchanged_keys(story: Story, get: Get):
    text = get(rewind_page(story)).one("form", css="branch-plan").text
    assert "“And in Rome?” had not happened: it ignores 4 events, starting at event 3." in text
    assert 'city "Rome" → "Paris"' in text
    assert "late 1 removed" in text
    assert 'user:tier then "free", now "gold"' in text
    assert "1 tool call: effects outside the session are not undone" in text
    assert "get_weather city=Rome event 4" in text
    assert Event.objects.count() == 6


def test_confirming_rewinds_and_leads_back_to_the_session(story: Story, client: Client, get: Get):
    form = get(rewind_page(story)).one("form", css="branch-plan")
    fields = {field.attrs["name"]: field.attrs["value"] for field in form.all("input")}
    response = client.post(form.attrs["action"], fields)
    assert (response.status_code, response["Location"]) == (302, "/sessions/weather/ann/s1/")
    page = get(response["Location"])
    assert page.one("li", css="fold").one("summary").text.startswith("4 events rewound by event 7")
    assert 'city "Rome" "Paris"' in page.one("article", data_seq="7").text


def test_a_plan_that_is_old_is_shown_anew_and_nothing_is_done(story: Story, client: Client):
    revision = story.session.revision
    story.says("One more.")
    response = client.post(f"/sessions/id/{story.pk}/rewind/", {"event": "e5", "revision": revision})
    assert response.status_code == 409
    page = parse(response.content)
    assert "The session has changed" in page.one("div", css="notice-warn").text
    assert page.one("input", name="revision").attrs["value"] == str(story.session.revision)
    assert story.session.last_seq == 7


def test_a_session_that_runs_is_not_rewound_and_the_run_is_named(story: Story, client: Client, get: Get):
    run = lifecycle.create_run(story.pk, {})
    page = get(rewind_page(story))
    assert run.id[:8] in page.one("div", css="notice-warn").text
    assert "disabled" in page.one("button", css="button-primary").attrs
    response = client.post(f"/sessions/id/{story.pk}/rewind/", {"event": "e5"})
    assert response.status_code == 409
    assert run.id in parse(response.content).one("h1").text


@pytest.mark.parametrize(("query", "status"), [("?event=nobody", 404), ("", 400)])
def test_a_rewind_to_nowhere_is_refused(story: Story, get: Get, query: str, status: int):
    get(f"/sessions/id/{story.pk}/rewind/{query}", status=status)


def test_an_eval_attempt_offers_a_fork_and_no_rewind(get: Get):
    story = Story(realm="eval/1")
    story.asks("one")
    page = get(f"/sessions/id/{story.pk}/?seq=1")
    assert not [a for a in page.all("a") if "Rewind" in a.attrs.get("aria-label", a.text)]
    assert link(page, "Fork from here")
    get(rewind_page(story, "e1"), status=400)


def test_side_list_tells_where_a_session_was_forked(story: Story, get: Get):
    copy = fork(story.pk, NewFork(seq=2, title="My attempt"))
    row = get(f"/sessions/id/{story.pk}/").one("div", id="siblings").one("a", href=session_url(copy))
    assert row.one("span", title="Forked at event 2")


def test_the_form_of_a_fork_is_filled_in(story: Story, get: Get):
    form = get(f"/sessions/id/{story.pk}/fork/?seq=2", target="dialog-content").one("form")
    values = {
        field.attrs["name"]: field.attrs.get("value", "")
        for field in form.all("input")
        if field.attrs.get("type") != "radio" or "checked" in field.attrs
    }
    assert values == {
        "seq": "2",
        "title": "Fork at 2 of Weather in Paris?",
        "app": "weather",
        "user": "ann",
        "session_id": "",
        "shared": "live",
    }


def test_fork_form_lists_changed_shared_keys(story: Story, get: Get):
    earlier = get(f"/sessions/id/{story.pk}/fork/?seq=2", target="dialog-content").one("form")
    assert "up to this one (2 of 6)" in earlier.text
    [key] = earlier.one("ul", css="plan-keys").all("li")
    assert key.text.split() == ["U", "user:tier", "then", '"free",', "now", '"gold"']
    newest = get(f"/sessions/id/{story.pk}/fork/?seq=6", target="dialog-content").one("form")
    assert "has not changed since this event" in newest.text


def test_fork_and_original_link_to_each_other(story: Story, client: Client, get: Get):
    form = {"seq": 2, "app": "weather", "user": "ann", "session_id": "try", "title": "Try", "shared": "live"}
    response = client.post(f"/sessions/id/{story.pk}/fork/", form)
    assert (response.status_code, response["Location"]) == (302, "/sessions/weather/ann/try/")
    new = get("/sessions/weather/ann/try/")
    origin = new.one("span", css="session-facts").one("span", css="origin-line")
    assert origin.text == "forked from Weather in Paris? at event 2"
    assert origin.one("a").attrs["href"] == "/sessions/weather/ann/s1/?seq=2"
    assert "forked here" in new.one("article", data_seq="2").text
    old = get(f"/sessions/id/{story.pk}/")
    assert (
        old.one("article", data_seq="2").one("a", css="fork-link").attrs["href"]
        == "/sessions/weather/ann/try/"
    )
    branches = old.one("section", css="relatives")
    assert [a.attrs["href"] for a in branches.all("a")] == [
        "/sessions/weather/ann/try/",
        "?seq=2",
        f"/sessions/compare/?left={story.pk}&right={AgentSession.objects.get(session_id='try').pk}",
    ]


def test_fork_with_own_state_says_so(story: Story, client: Client, get: Get):
    form = {"seq": 2, "app": "weather", "user": "ann", "title": "Try", "shared": "own"}
    response = client.post(f"/sessions/id/{story.pk}/fork/", form)
    page = get(response["Location"])
    assert "own user: and app: state" in page.one("span", css="session-facts").text


@pytest.mark.django_db(transaction=True)
def test_deleting_a_fork_with_state_of_its_own_deletes_its_private_world(client: Client, get: Get):
    story = Story(initial={"user:tier": "free"})
    story.asks("one")
    new = fork(story.pk, NewFork(own_realm=True))
    offer = link(get(f"/sessions/id/{new.pk}/"), "Delete with its realm")
    assert "with everything in its realm" in get(offer.attrs["href"]).one("p", css="soft").text
    assert client.post(offer.attrs["href"]).status_code == 302
    assert not get("/sessions/?realm=fork/").all("a", css="row-link")
    purge.remove_deleted(time.time() + 1)
    assert not AgentSession.objects.filter(pk=new.pk).exists()
    assert [row.owner.realm for row in UserState.objects.select_related("owner")] == [""]


@pytest.mark.parametrize("way", ["with a way back", "for good"])
def test_fork_of_deleted_session_names_it(story: Story, get: Get, way: str):
    new = fork(story.pk, NewFork(seq=2, session_id="try"))
    deletion.delete([story.pk])
    if way == "for good":
        purge.remove_deleted(time.time() + 1)
    origin = get(f"/sessions/id/{new.pk}/").one("span", css="session-facts").one("span", css="origin-line")
    assert origin.text == "forked from s1, deleted, at event 2"
    assert not origin.all("a")


def test_existing_id_is_reported_in_the_form(story: Story, client: Client):
    form = {"seq": 2, "app": "weather", "user": "ann", "session_id": "s1", "shared": "live"}
    response = client.post(f"/sessions/id/{story.pk}/fork/", form)
    assert response.status_code == 422
    assert "already exists" in parse(response.content).one("div", css="notice-danger").text
    assert AgentSession.objects.count() == 1


@pytest.mark.parametrize(("method", "seq"), [("get", 99), ("post", 99)])
def test_an_event_that_does_not_exist_cannot_be_forked_at(
    story: Story, client: Client, method: str, seq: int
):
    form = {"seq": seq, "app": "weather", "user": "ann", "shared": "live"}
    response = getattr(client, method)(f"/sessions/id/{story.pk}/fork/", form)
    assert response.status_code == 404


def test_two_branches_are_shown_side_by_side(story: Story, get: Get):
    new = fork(story.pk, NewFork(seq=2, session_id="try"))
    other = Story("unused")
    other.key, other.pk, other.told, other.invocation = story.key._replace(session_id="try"), new.pk, 90, "f1"
    other.asks("And in Oslo?")
    other.says("Snow.", delta={"city": "Oslo"})
    page = get(f"/sessions/compare/?left={story.pk}&right={new.pk}")
    assert "The first 2 events are the same" in page.one("p", css="compare-common").text
    [turn] = page.all("li", "compare-turn")
    left, right = turn.all("div", "compare-cell")
    assert [e.attrs["data-seq"] for e in left.all("li", "compare-event")] == ["3", "4", "5", "6"]
    assert [e.attrs["data-seq"] for e in right.all("li", "compare-event")] == ["3", "4"]
    pairs = [[part.text for part in li.all("span")] for li in page.one("ul", css="state-pairs").all("li")]
    assert pairs[0] == ["S city", '"Rome"', '"Oslo"']
    assert pairs[1][:3] == ["S late", "1", "absent"]
    at_two = get(f"/sessions/compare/?left={story.pk}&right={new.pk}&left_at=2&right_at=2")
    assert "0 keys differ" in at_two.one("section", css="compare-state").text


def test_more_turns_come_as_a_piece(story: Story, get: Get):
    new = fork(story.pk, NewFork(seq=2))
    for number in range(80):
        story.invocation = f"n{number}"
        story.asks("x")
    address = f"/sessions/compare/?left={story.pk}&right={new.pk}"
    more = get(address).one("li", id="more-turns").one("a")
    piece = get(f"/sessions/compare/{more.attrs['hx-get']}", target="more-turns")
    assert not piece.all("html")
    assert piece.all("li", "compare-turn")


def test_without_a_second_session_relatives_are_offered_first(story: Story, get: Get):
    Story("newer")
    new = fork(story.pk, NewFork(seq=2, title="Try"))
    page = get(f"/sessions/compare/?left={story.pk}")
    choices = compare_choices(page)
    assert choices[0] == f"?left={story.pk}&right={new.pk}"
    assert len(choices) == 2


def compare_choices(page: Element) -> list[str]:
    return [a.attrs["href"] for a in page.one("section", css="compare-choice").all("a", "go-link")]


def test_session_to_compare_with_is_found_by_a_query(story: Story, get: Get):
    other = Story("other")
    other.asks("Is it foggy in Lima?")
    page = get(f"/sessions/compare/?left={story.pk}&q=foggy")
    assert compare_choices(page) == [f"?left={story.pk}&right={other.pk}"]
    assert not compare_choices(get(f"/sessions/compare/?left={story.pk}&q=nowhere"))


def test_invalid_query_of_a_comparison_is_explained(story: Story, get: Get):
    page = get(f"/sessions/compare/?left={story.pk}&q=tokens>>")
    assert page.one("section", css="compare-choice").all("div", "notice-warn")


def test_session_with_same_first_message_and_no_problem_is_offered_first(story: Story, get: Get):
    good, bad = Story("good"), Story("bad")
    for other in (good, bad):
        other.asks("Weather in Paris?")
    AgentSession.objects.filter(pk=bad.pk).update(problem_count=1)
    section = get(f"/sessions/compare/?left={story.pk}").one("section", css="compare-choice")
    assert section.all("a")[0].attrs["href"] == f"?left={story.pk}&right={good.pk}"


def test_two_selected_sessions_are_compared(story: Story, client: Client):
    other = Story("other")
    response = client.get(f"/sessions/compare/?session={story.pk}&session={other.pk}&next=x")
    assert response["Location"] == f"/sessions/compare/?left={story.pk}&right={other.pk}"


@pytest.mark.parametrize("query", ["", "session=1", "session=1&session=2&session=3", "right=1"])
def test_comparison_of_another_number_of_sessions_is_refused(story: Story, get: Get, query: str):
    get(f"/sessions/compare/?{query}", status=400)


@pytest.mark.parametrize(
    ("query", "status"),
    [("?left=999", 404), ("", 400), ("?left={0}&right=999", 404), ("?left={0}&right={0}&left_at=99", 404)],
)
def test_invalid_comparison_is_refused(story: Story, get: Get, query: str, status: int):
    get(f"/sessions/compare/{query.format(story.pk)}", status=status)


def test_rewind_without_event_is_refused(client: Client):
    answer = client.get(f"/sessions/id/{Story().pk}/rewind/")
    assert answer.status_code == 400
    problem = parse(answer.content.decode())
    assert "The parameter 'event' is missing." in problem.one("h1").text
    assert "open the page from a link" in problem.text


def test_every_fork_of_an_event_is_listed_or_counted(story: Story, get: Get, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lineage, "MAX_FORKS", 6)
    for number in range(8):
        fork(story.pk, NewFork(seq=2, session_id=f"try{number}"))
    fork(story.pk, NewFork(seq=3, title="Later"))
    page = get(f"/sessions/id/{story.pk}/")
    assert "and 3 more forks" in page.one("article", data_seq="2").text
    assert [a.text for a in page.one("article", data_seq="3").all("a", "fork-link")] == ["Later"]
    branches = page.one("section", css="relatives")
    assert len(branches.all("li")) == 7
    assert "and 3 more forks" in branches.text
