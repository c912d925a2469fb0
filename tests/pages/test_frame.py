"""Elements that all pages share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.template import Engine

from sessions_app.agents import cards
from sessions_app.store.models import Run
from tests.pages.client import Get
from tests.pages.descriptions import AGENT_WITH_TOOL
from tests.pages.html import Element
from tests.timeline.story import Story

ROOT = Path(__file__).resolve().parents[2]

PAGES = {
    "/": "Agents",
    "/sessions/": "Sessions",
    "/sessions/?q=nothing+has+this": "Sessions",
    "/sessions/new/": "New session",
    "/sessions/id/{pk}/delete/": "Delete a session",
    "/state/": "State",
    "/state/?app=weather&user=ann": "State of weather",
    "/state/history/{change}/": "History of city",
    "/runs/": "Runs",
    "/artifacts/": "Artifacts",
    "/artifacts/upload/": "Upload an artifact",
    "/memory/": "Memory",
    "/monitor/": "Monitor",
    "/trends/": "Trends",
    "/agents/weather/": "weather",
    "/agents/weather/tools/get_weather/": "get_weather",
}


@pytest.fixture(params=PAGES.items(), ids=PAGES.keys())
def page(request: pytest.FixtureRequest, get: Get, store: None, agents_dir: Path) -> Element:
    address, title = request.param
    story = Story(initial={"user:city": "Paris", "app:n": 1})
    change = story.session.changes.get(key="city")
    if "/tools/" in address:
        cards.save_loaded("weather", "v1", AGENT_WITH_TOOL)
    response = get(address.format(pk=story.pk, change=change.pk))
    assert response.one("title").text == f"{title} · DevUI"
    return response


def test_a_page_runs_no_inline_script_and_wears_no_inline_style(page: Element):
    assert [script.attrs.get("src", "") != "" and script.text == "" for script in page.all("script")] == [
        True
    ] * len(page.all("script"))
    assert not page.all("style")
    assert not [element.attrs for element in page if "style" in element.attrs]
    assert not [name for element in page for name in element.attrs if name.startswith(("on", "hx-on"))]


def test_pages_load_no_external_resources(page: Element):
    addresses = [element.attrs[name] for element in page for name in ("src", "href") if name in element.attrs]
    assert addresses
    assert not [address for address in addresses if re.match(r"(?!#)[a-z-]*:|//", address)]


def test_page_has_landmarks_one_heading_and_skip_link(page: Element):
    assert page.one("main").attrs["id"] == "main"
    assert page.one("a", css="skip-link").attrs["href"] == "#main"
    assert page.one("nav", css="places").attrs["aria-label"] == "Places"
    assert len(page.all("h1")) == 1


def test_ids_are_unique(page: Element):
    ids = [element.attrs["id"] for element in page if "id" in element.attrs]
    assert sorted(ids) == sorted(set(ids))


def test_every_control_has_a_name(page: Element):
    labelled = {label.attrs.get("for") for label in page.all("label")}
    for label in page.all("label"):
        labelled.update(id(control) for control in label)
    for control in page.all("input") + page.all("select") + page.all("textarea"):
        if control.attrs.get("type") != "hidden":
            assert control.attrs.get("id") in labelled or id(control) in labelled, control.attrs
    for button in page.all("button") + page.all("a") + page.all("summary"):
        assert button.text or button.attrs.get("aria-label"), button.attrs


def test_every_icon_is_in_the_sprite_and_is_named_or_hidden(page: Element):
    sprite = Path(str(finders.find("devui/icons.svg"))).read_text()
    sprite_names = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    for svg in page.all("svg"):
        assert svg.one("use").attrs["href"].partition("#")[2] in sprite_names
        assert svg.attrs.get("aria-hidden") == "true" or svg.attrs.get("aria-label")


def test_templates_name_only_icons_of_the_sprite():
    sprite = (ROOT / "static/devui/icons.svg").read_text()
    sprite_names = set(re.findall(r'<symbol id="([^"]+)"', sprite))
    for template in (ROOT / "templates").rglob("*.html"):
        icon_names = set(re.findall(r'{% icon(?:_link|_button)? "([^"]+)"', template.read_text()))
        assert icon_names <= sprite_names, template


def test_templates_load_exactly_the_libraries_they_use():
    libraries = Engine.get_default().template_libraries
    for template in (ROOT / "templates").rglob("*.html"):
        text = template.read_text()
        used = set(re.findall(r"{%\s*(\w+)|\|(\w+)", text))
        names = {name for result in used for name in result if name}
        for library in re.findall(r"{% load ([^%]+) %}", text):
            for name in library.split():
                library_names = {*libraries[name].tags, *libraries[name].filters}
                assert names & library_names, f"{template} needs no {name}"


STANDS_ALONE = ROOT / "templates/devui/evals/report.html"
"""A file that is read without a server carries its style."""


def test_no_template_of_a_page_holds_an_inline_script_or_style():
    for template in set((ROOT / "templates").rglob("*.html")) - {STANDS_ALONE}:
        text = template.read_text()
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|hx-on|javascript:", text), template
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), template


def test_no_line_of_a_template_is_longer_than_160_characters():
    for template in (ROOT / "templates").rglob("*.html"):
        assert max(map(len, template.read_text().splitlines()), default=0) <= 160, template


def classes_of(template: str) -> set[str]:
    """Return the classes a template gives, without those it makes of a value."""
    matches = re.findall(r'class="([^"]*)"', re.sub(r"{%.*?%}", " ", template))
    matches += re.findall(r'css="([^"]*)"', template)
    return {name for names in matches for name in names.split() if re.fullmatch(r"[a-z][\w-]*", name)}


def test_every_css_class_of_a_template_is_used():
    styles = [*ROOT.glob("static/devui/css/**/*.css"), STANDS_ALONE]
    used = {name for path in styles for name in re.findall(r"\.([a-z][\w-]*)", path.read_text())}
    for path in [*ROOT.glob("static/devui/js/**/*.js"), *ROOT.glob("tests/**/*.py")]:
        used.update(re.findall(r"(?:\.|css=\")([a-z][\w-]*)", path.read_text()))
    templates = {path: path.read_text() for path in (ROOT / "templates").rglob("*.html")}
    for text in templates.values():
        used.update(re.findall(r'hx-[\w-]+="[^"]*\.([a-z][\w-]*)"', text))
    for template, text in templates.items():
        assert classes_of(text) <= used, template


@pytest.mark.django_db
def test_navigation_keeps_app_and_marks_current_place(get: Get, agents_dir: Path):
    places = get("/sessions/?app=weather").one("nav", css="places").all("a")
    links = {link.text: (link.attrs["href"], link.attrs.get("aria-current")) for link in places}
    assert links["Sessions"] == ("/sessions/?app=weather", "page")
    assert links["Data"] == ("/state/?app=weather", None)
    assert links["Agents"] == ("/", None)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "fork/",
        "state/drift/",
        "events/1/trace/",
        "rename/",
        "/runs/edit/{pk}/1/",
        "/runs/{run}/resume/",
    ],
)
def test_a_page_of_a_session_is_about_its_app(get: Get, store: None, agents_dir: Path, address: str):
    story = Story()
    story.asks("one")
    story.says("two")
    run = Run.objects.create(id="r1", session_id=story.pk, invocation_id="i1", status="done", created_at=1.0)
    address = address.format(pk=story.pk, run=run.pk)
    page = get(address if address.startswith("/") else f"/sessions/id/{story.pk}/{address}")
    assert page.one("details", css="app-switcher").one("summary").text == "weather"
    places = {link.text: link.attrs["href"] for link in page.one("nav", css="places").all("a")}
    assert places["Monitor"] == "/monitor/?app=weather"


@pytest.mark.django_db
@pytest.mark.parametrize("place", ["state", "runs", "artifacts", "memory"])
def test_the_app_menu_leads_to_the_same_place_for_another_app(get: Get, agents_dir: Path, place: str):
    links = get(f"/app-menu/?place={place}&app=writer").all("a")
    assert [(link.text, link.attrs["href"], link.attrs.get("aria-current")) for link in links] == [
        ("All apps", f"/{place}/", None),
        ("weather", f"/{place}/?app=weather", None),
        ("writer", f"/{place}/?app=writer", "true"),
    ]


@pytest.mark.django_db
def test_outside_of_lists_the_app_menu_leads_to_the_agents_own_pages(get: Get, agents_dir: Path):
    links = get("/app-menu/?place=agents").all("a")
    assert [link.attrs["href"] for link in links] == ["/", "/agents/weather/", "/agents/writer/"]
