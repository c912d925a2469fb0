"""Memory pages: list, search, adding sessions, deleting entries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from sessions_app.runs import runtime_client as runtimes
from sessions_app.store import memory_entries, scopes
from sessions_app.store.models import MemoryEntry
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import START, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]

ANN = memory_entries.make_owner("", "weather", "ann")


def remember(
    *texts: str, session: str = "s1", owner: memory_entries.MemoryOwner = ANN, first: int = 1, **fields: Any
) -> None:
    """Remember texts as the events e1, e2 … of a session."""
    drafts = [
        memory_entries.NewEntry(
            f"e{n}", "agent", START + n, scopes.canonicalize({"parts": [{"text": text}]}), text, **fields
        )
        for n, text in enumerate(texts, start=first)
    ]
    memory_entries.add_entries(owner, session, drafts)


def texts(page: Element) -> list[str]:
    return [entry.text for entry in page.all("p", css="memory-text")]


def test_memory_is_listed_newest_first_and_filtered(get: Get):
    remember("Paris is rainy", "Rome is sunny")
    remember("I like tea", owner=memory_entries.make_owner("", "writer", "ben"))
    assert len(texts(get("/memory/"))) == 3
    assert texts(get("/memory/?app=weather")) == ["Rome is sunny", "Paris is rainy"]
    assert texts(get("/memory/?user=ben")) == ["I like tea"]
    assert texts(get("/memory/?app=weather&user=ann&session=other")) == []


def test_search_returns_an_agents_results_in_order(get: Get):
    remember("rain in Paris", *[f"it rains, day {n}" for n in range(12)], "Paris, Paris: rain")
    remember("rain of somebody else", owner=memory_entries.make_owner("", "weather", "ben"))
    entries = memory_entries.search(ANN, "Paris rain", 10)
    page = get("/memory/?" + urlencode({"app": "weather", "user": "ann", "q": "Paris rain"}))
    order = [entry.attrs["id"] for entry in page.one("tbody").all("tr")]
    assert order == [f"memory-{row.pk}" for row in entries]
    assert page.one("h2", css="memory-title").text == f"An agent would recall {len(entries)} entries"
    assert not page.all("a", css="sort-link")
    assert page.one("caption").text == "Memory entries, best first"


def test_two_japanese_characters_are_searchable(get: Get):
    remember("明日の天気は晴れです")
    assert texts(get("/memory/?" + urlencode({"app": "weather", "user": "ann", "q": "天気"})))


def test_search_without_owner_asks_for_one(get: Get):
    remember("Paris")
    assert "choose both" in get("/memory/?q=Paris").one("div", id="memory").text


def test_search_without_results_says_so(get: Get):
    page = get("/memory/?app=weather&user=ann&q=nothing")
    assert page.one("div", css="empty").one("h2").text == "An agent would recall nothing"


def test_an_entry_leads_to_its_event(get: Get):
    story = Story()
    seq = story.says("Rome is sunny")
    remember("Rome is sunny")
    remember("of a session that is gone", session="s9")
    memory_entries.replace_entries(
        ANN,
        [
            memory_entries.NewEntry(
                "m1", "", START, scopes.canonicalize({"parts": [{"text": "by hand"}]}), "by hand"
            )
        ],
    )
    page = get("/memory/")
    links = [a.attrs["href"] for a in page.all("a") if a.text.startswith("event ")]
    assert links == [f"/sessions/weather/ann/s1/?seq={seq}"]
    assert "session s9, not here" in page.text
    assert "no session" in page.text


def test_secrets_in_metadata_are_not_shown(get: Get):
    secret = {"key": {"authType": "apiKey", "apiKey": "hunter2"}, "topic": "x"}
    remember("hello", custom_metadata=json.dumps(secret))
    page = get("/memory/").text
    assert ("hunter2" in page, "topic" in page) == (False, True)


@pytest.mark.parametrize("name", ["a/b", "quo\"te's", "日本語", "x" * 255, "%2F?&#", "<b>"])
def test_owners_of_any_name_are_shown_searched_and_forgotten(get: Get, client: Client, name: str):
    owner = memory_entries.make_owner("", name, name)
    remember("Paris", owner=owner, session=name)
    link = get("/memory/").one("td", css="memory-owner").one("a").attrs["href"]
    page = get(f"/memory/{link}&q=paris")
    assert texts(page) == ["Paris"]
    ask = page.one("a", css="memory-delete").attrs["href"]
    assert client.post(get(ask).one("form", method="post").attrs["action"]).status_code == 302
    assert texts(get("/memory/")) == []


def test_a_forgotten_entry_stays_forgotten(get: Get, client: Client):
    remember("Paris", "Rome")
    pk = MemoryEntry.objects.get(entry_id="e1").pk
    page = get(f"/memory/delete/?entry={pk}", target="dialog-content")
    assert "does not restore it" in page.text
    assert client.post(f"/memory/delete/?entry={pk}")["Location"] == "/memory/?app=weather&user=ann"
    remember("Paris", "Rome")
    assert texts(get("/memory/")) == ["Rome"]
    get(f"/memory/delete/?entry={pk}", status=404)


def test_memory_of_eval_attempt_is_read_only(client: Client):
    remember("Paris", owner=memory_entries.make_owner("eval/1", "weather", "ann"))
    assert client.post(f"/memory/delete/?entry={MemoryEntry.objects.get().pk}").status_code == 400


def test_deleted_memory_is_hidden(get: Get):
    remember("Paris", owner=memory_entries.make_owner("deleted/1", "weather", "ann"))
    assert texts(get("/memory/?realm=deleted/1")) == []


def test_other_sites_cannot_make_anybody_forget_or_remember(client: Client):
    remember("Paris")
    foreign = {"Origin": "https://evil.example"}
    assert (
        client.post(f"/memory/delete/?entry={MemoryEntry.objects.get().pk}", headers=foreign).status_code
        == 403
    )
    assert client.post("/memory/add/", headers=foreign).status_code == 403


def test_pages_join_and_ask_a_fixed_number_of_queries(
    get: Get, client: Client, django_assert_num_queries: DjangoAssertNumQueries
):
    story = Story()
    for n in range(110):
        story.says(f"text {n}")
    remember(*[f"text {n}" for n in range(110)])
    with django_assert_num_queries(
        5
    ):  # the apps of the filter, the entries, their number, sessions and events
        client.get("/memory/")
    memories: list[str] = []
    url = "/memory/"
    while url:
        page = get(url)
        memories += texts(page)
        older = page.all("a", rel="next")
        url = f"/memory/{older[0].attrs['href']}" if older else ""
    assert memories == [f"text {n}" for n in reversed(range(110))]


def test_memory_is_sorted_and_exported(get: Get, client: Client):
    remember("=1+1", "second")
    page = get("/memory/?sort=time&hide=user")
    assert texts(page) == ["=1+1", "second"]
    assert "User" not in page.one("thead").text
    lines = client.get("/memory/csv/?sort=time&hide=user,session,time").content.decode().splitlines()
    assert lines[0] == "memory,author,app"
    assert [line.split(",")[0] for line in lines[1:]] == ["'=1+1", "second"]


def test_a_store_without_memory_teaches_how_to_fill_it(get: Get):
    assert get("/memory/").one("div", css="empty").one("h2").text == "Nothing is remembered yet"


def test_external_memory_service_is_named(get: Get, settings: Any):
    settings.DEVUI_MEMORY_SERVICE = "rag://corpus"
    assert "rag://corpus" in get("/memory/").one("div", css="notice").text


class Process:
    """An app's process that remembers by `remember`, or refuses."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[tuple[str, str, bytes]] = []

    async def client(self, app_name: str) -> Process:
        """Return itself."""
        return self

    @asynccontextmanager
    async def open(
        self, method: str, path: str, *, headers: dict[str, str], content: bytes
    ) -> AsyncIterator[httpx.Response]:
        """Note what is asked."""
        self.asked.append((method, path, content))
        yield httpx.Response(self.status, content=b'{"detail": "no memory here"}')


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    """The process of every app; its parameter is the status that it answers."""
    agent_process = Process(getattr(request, "param", 200))
    runtimes.register(agent_process)  # as much of a provider as is asked of it
    yield agent_process
    runtimes.register(None)


NAMED = {"app": "weather", "user": "ann", "session": "s1"}


def test_a_session_is_added_by_the_agents_own_process(
    store: None, client: Client, process: Process, get: Get
):
    Story().says("Rome is sunny")
    answer = client.post("/memory/add/", NAMED)
    assert process.asked == [("PATCH", "/apps/weather/users/ann/memory", b'{"session_id": "s1"}')]
    assert answer["Location"] == "/memory/?app=weather&user=ann&session=s1&added=0"
    assert "No new entries" in get(answer["Location"]).one("p", css="memory-added").text


def test_menu_of_a_session_adds_it_to_memory(get: Get):
    story = Story()
    story.says("Rome is sunny")
    menu = get(f"/sessions/id/{story.pk}/").one("details", css="session-menu")
    form = next(form for form in menu.all("form") if form.attrs["action"] == "/memory/add/")
    fields = {field.attrs["name"]: field.attrs["value"] for field in form.all("input")}
    assert fields == NAMED


def test_incomplete_form_is_refused(store: None, client: Client, process: Process):
    assert client.post("/memory/add/", {"app": "weather"}).status_code == 400
    assert not process.asked


@pytest.mark.parametrize("process", [404], indirect=True)
def test_error_shows_at_the_form_with_its_input(store: None, client: Client, process: Process):
    Story("s2").says("Rome is sunny")
    page = parse(client.post("/memory/add/", NAMED).content.decode())
    section = page.one("section", css="memory-add-section")
    assert "no memory here" in section.text
    field_values = {
        each.attrs["name"]: each.attrs["value"] for each in section.all("input") if "value" in each.attrs
    }
    assert NAMED.items() <= field_values.items()


@pytest.mark.parametrize("process", [500], indirect=True)
def test_error_of_the_process_is_shown(store: None, client: Client, process: Process):
    Story()
    answer = client.post("/memory/add/", NAMED)
    assert answer.status_code == 400
    assert b"no memory here" in answer.content


def test_without_runtimes_adding_is_refused_with_reason(store: None, client: Client):
    Story()
    assert client.post("/memory/add/", NAMED).status_code == 503


def test_selected_entries_are_forgotten_together(get: Get, client: Client):
    remember("Paris", "Rome", "Oslo")
    pks = list(MemoryEntry.objects.order_by("pk").values_list("pk", flat=True))
    boxes = [box.attrs["value"] for box in get("/memory/").one("tbody").all("input", name="entry")]
    assert sorted(boxes) == sorted(map(str, pks))
    page = get(f"/memory/delete/?entry={pks[0]}&entry={pks[2]}", target="dialog-content")
    assert page.one("h1").text == "Forget 2 memory entries?"
    assert client.post(page.one("form").attrs["action"])["Location"] == "/memory/?app=weather&user=ann"
    assert texts(get("/memory/")) == ["Rome"]


def test_nothing_is_forgotten_when_one_entry_is_unknown(get: Get, client: Client):
    remember("Paris")
    pk = MemoryEntry.objects.get().pk
    assert client.post(f"/memory/delete/?entry={pk}&entry={pk + 1}").status_code == 404
    assert texts(get("/memory/")) == ["Paris"]


@pytest.mark.parametrize(
    "query", ["", "?entry=", "?entry=x", "?entry=-1", "?" + "&".join(f"entry={n}" for n in range(101))]
)
def test_deletion_without_valid_entries_is_refused(client: Client, query: str):
    assert client.get(f"/memory/delete/{query}").status_code == 400
    assert client.post(f"/memory/delete/{query}").status_code == 400
