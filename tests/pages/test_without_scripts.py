"""Pages without JavaScript: valid HTML, and every action by a form or a link."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from justhtml import JustHTML

from sessions_app.agents import cards
from sessions_app.runs import lifecycle as runs
from tests.pages.descriptions import AGENT_WITH_TOOL
from tests.pages.html import Element, parse
from tests.timeline.story import Story

EVENTS = 30
TYPED = {"text", "search", "number"}
BY_ITSELF = ("load", "poll", "toggle once", "intersect once", "change from:")
"""When a script looks for what is newer or deeper, or fits what is typed: nothing that a person asks for."""

PAGES = {
    "places": "/go/",
    "agents": "/",
    "agent": "/agents/weather/",
    "tool": "/agents/weather/tools/get_weather/?agent=root",
    "sessions": "/sessions/",
    "no sessions": "/sessions/?q=nothing+has+this",
    "new session": "/sessions/new/",
    "delete": "/sessions/id/{pk}/delete/",
    "timeline": "/sessions/id/{pk}/",
    "timeline at an event": "/sessions/id/{pk}/?seq=7",
    "raw event": "/sessions/id/{pk}/?seq=7&tab=raw",
    "difference": "/sessions/id/{pk}/?seq=7&diff=3",
    "fork": "/sessions/id/{pk}/fork/?seq=7",
    "rewind": "/sessions/id/{pk}/rewind/?event=e7",
    "edit a key": "/sessions/id/{pk}/state/edit/?key=n",
    "drift": "/sessions/id/{pk}/state/drift/",
    "compare": "/sessions/compare/?left={pk}&right={other}",
    "state": "/state/",
    "state of an app": "/state/?app=weather&user=ann",
    "history of a key": "/state/history/{change}/",
    "runs": "/runs/",
    "evals": "/evals/",
    "a session that is gone": "/sessions/weather/ann/gone/",
}


@pytest.fixture
def addresses(store: None, agents_dir: Path) -> dict[str, str]:
    """Pages of a store that has something of everything."""
    story, other = Story("s1", initial={"user:city": "Paris", "app:n": 1}), Story("s2")
    other.asks("Anything else?")
    story.asks("Weather in <b>Paris</b> & Rome?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1")
    story.calls("ask_leave", "c2", waiting=True)
    for number in range(story.told, EVENTS):
        story.says(
            f"**event** {number}\n\n```\n</div>\n```", delta={"n": number, "deep": {"list": [1, {"x": []}]}}
        )
    runs.create_run(story.pk, {})
    cards.save_loaded("weather", "v1", AGENT_WITH_TOOL)
    change = story.session.changes.get(key="city")
    return {name: page.format(pk=story.pk, other=other.pk, change=change.pk) for name, page in PAGES.items()}


@pytest.fixture(params=PAGES)
def html(request: pytest.FixtureRequest, client: Client, addresses: dict[str, str]) -> str:
    """A page as the server sends it."""
    answer = client.get(addresses[request.param], follow=True)
    assert answer.status_code in {200, 404}, answer.content.decode()[:2000]
    return answer.content.decode()


def element_name(element: Element) -> str:
    return f"<{element.tag} {element.attrs}>"


def within(page: Element, *tags: str) -> set[Element]:
    """Return all elements inside elements of these tags."""
    return {inner for tag in tags for outer in page.all(tag) for inner in outer}


def test_a_page_is_valid_and_complete(html: str):
    page = JustHTML(html, collect_errors=True, scripting_enabled=False, sanitize=False)
    assert not page.errors
    assert html.rstrip().endswith("</html>")


def previews_its_form(page: Element, element: Element) -> bool:
    """Tell whether an element sends the form around it, to its address, when something is typed."""
    forms = [form for form in page.all("form") if element in set(form)]
    return element.attrs.get("hx-include") == "closest form" and [form.attrs["action"] for form in forms] == [
        element.attrs["hx-post"]
    ]


def test_everything_fetched_by_scripts_has_its_own_address(html: str):
    page = parse(html)
    for element in page:
        if "hx-get" in element.attrs and not element.attrs.get("hx-trigger", "").startswith(BY_ITSELF):
            is_for_scripts = element.tag == "button" and element.attrs.get("type") == "button"
            assert is_for_scripts or element.tag == "form" or element.attrs.get("href"), element_name(element)
    for element in page:
        if "hx-post" in element.attrs and not previews_its_form(page, element):
            assert element.tag == "form", element_name(element)
            assert element.attrs["action"], element_name(element)
            assert element.attrs["method"] == "post", element_name(element)


def test_every_button_sends_a_form_or_is_a_scripts_and_hidden(html: str):
    page = parse(html)
    in_forms = within(page, "form")
    ids = {form.attrs.get("id") for form in page.all("form")}
    for button in page.all("button"):
        is_for_scripts = button.attrs.get("type") == "button"
        assert is_for_scripts or button in in_forms or button.attrs.get("form") in ids, element_name(button)


def test_every_form_can_be_sent(html: str):
    page = parse(html)
    for form in page.all("form"):
        buttons = [button for button in form.all("button") if button.attrs.get("type") != "button"]
        buttons += page.all("button", form=form.attrs.get("id", "no id"))
        texts = [field for field in form.all("input") if field.attrs.get("type", "text") in TYPED]
        assert buttons or len(texts) == 1, element_name(form)


def elements(client: Client, address: str) -> Element:
    return parse(client.get(address, follow=True).content)


def test_the_timeline_holds_every_event_with_its_number(client: Client, addresses: dict[str, str]):
    seqs = [event.attrs["data-seq"] for event in events(elements(client, addresses["timeline"]))]
    assert sorted(map(int, seqs)) == list(range(1, EVENTS + 1))


def test_event_details_and_state_are_one_page(client: Client, addresses: dict[str, str]):
    page = elements(client, addresses["timeline at an event"])
    [current] = [event for event in events(page) if event.attrs.get("aria-current") == "true"]
    assert current.attrs["data-seq"] == "7"
    assert page.one(id="inspector-title").text.startswith("event 7")
    assert {"n", "deep"} <= {entry.attrs.get("data-key") for entry in page}


def test_the_list_holds_every_session(client: Client, addresses: dict[str, str]):
    rows = elements(client, addresses["sessions"]).one("tbody").all("tr")
    assert len(rows) == 2


def test_the_state_page_holds_every_key_of_the_app_and_the_user(client: Client, addresses: dict[str, str]):
    page = elements(client, addresses["state of an app"])
    assert {"city", "n"} <= {
        word for code in page.all("code") + page.all("bdi") for word in code.text.split()
    }


def events(page: Element) -> Iterator[Element]:
    """Yield the events of the timeline."""
    return (element for element in page.one(id="timeline-scroll") if "data-seq" in element.attrs)
