"""Sessions found by every term, alike before and after they are indexed."""

from __future__ import annotations

import time

import pytest

from sessions_app.runs import lifecycle as runs
from sessions_app.search.execution import field_terms
from sessions_app.sessions import app_settings
from sessions_app.store.models import AgentSession, Run, SessionTag
from sessions_app.store.sessions import writes
from sessions_app.timeline import event_window as windows
from tests.search.conftest import Find
from tests.timeline.story import Story

HOSTILE = [
    "'; DROP TABLE x; --",
    '" OR "1" = "1',
    "NEAR(a b)",
    "a*",
    "words:x",
    "^a",
    "%",
    "_",
    "\x00",
    "\ud800",
    "{}",
]


def test_word_is_found_in_messages_arguments_results_code_and_errors(find: Find):
    Story("message").says("It is Sunny in Paris.")
    Story("thought").add({"text": "perhaps sunny", "thought": True})
    Story("argument").calls("look", "c1", where={"deep": ["sunny", 3]})
    Story("result").answers("look", "c1", response={"sky": "sunny"})
    Story("code").add({"executableCode": {"language": "PYTHON", "code": "print('sunny')"}})
    Story("error").says("", errorCode="E", errorMessage="too sunny")
    Story("other").says("It rains.")
    assert find("sunny") == ["argument", "code", "error", "message", "result", "thought"]
    assert find("sunny paris") == ["message"]
    assert find("-sunny") == ["other"]


def test_words_match_anywhere_in_session_and_phrase_in_one_event(find: Find):
    story = Story("s1")
    story.asks("Weather in Paris?")
    story.says("No such city.")
    assert find("weather city") == ["s1"]
    assert find('"such city"') == ["s1"]
    assert find('"weather city"') == []
    assert find('"no paris"') == []


def test_star_ends_a_word_of_which_only_the_start_is_known(find: Find):
    Story("s1").says("Weather in Paris")
    Story("s2").says("No such city.")
    Story("s3").says("The weatherman comes to the cities")
    assert find("weath*") == ["s1", "s3"]
    assert find('"such cit"*') == ["s2"]
    assert find('"weath*"') == []
    assert find("-weath*") == ["s2"]
    assert find("weath* -weather") == ["s3"]


@pytest.mark.parametrize(
    ("text", "word"),
    [("明日は東京に行きます", "東京"), ("我喜欢北京烤鸭", "北京"), ("서울에서 만나요", "서울")],
)
def test_two_character_words_match_in_cjk(find: Find, text: str, word: str):
    Story("s1").says(text)
    Story("s2").says("nothing of the kind")
    assert find(word) == ["s1"]
    assert find(f'"{word}"') == ["s1"]


def test_numbers_in_arguments_are_found(find: Find):
    Story("s1").calls("order", "c1", id_of_order=48151623)
    assert find("48151623") == ["s1"]


def test_session_is_found_by_title_and_id(find: Find):
    writes.rename_session(Story("s1").pk, "Rainy days")
    Story("b2c4-77aa")
    assert find("rainy") == ["s1"]
    assert find("b2c4-77aa") == ["b2c4-77aa"]
    assert find("title:days") == ["s1"]
    assert find("session:b2c4") == ["b2c4-77aa"]


def test_state_and_credentials_are_no_text(find: Find):
    story = Story("s1", {"hidden": "in the state"})
    story.add(delta={"city": "Paris"})
    credential = {"authType": "apiKey", "apiKey": "s3cr3t"}
    story.calls("ask", "c1", credential=credential)
    assert find("paris") == find("hidden") == []
    assert find("s3cr3t") == []
    assert find("city ~ s3cr3t") == find("-never_there missing") == []


@pytest.mark.parametrize("text", HOSTILE)
def test_syntax_of_a_database_is_text(find: Find, text: str):
    Story("s1", {"k": text}).says(f"before {text} after")
    Story("s2").says("nothing")
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for query in (
        quoted.replace('"', '"before ', 1),
        f"k = {quoted} ever",
        f"k ~ {quoted}",
        f"tool:{quoted}",
        f"error:{quoted}",
        f"user:{quoted}",
    ):
        assert "s2" not in find(query)
    ids = [] if "\x00" in text else ["s1"]  # a query holds no NUL: it is shown, and looked for, as U+FFFD
    assert find(f"k = {quoted}") == find(f"k = {quoted} ever") == ids


def test_sessions_are_found_by_events(find: Find):
    story = Story("s1")
    story.asks("hello")
    story.calls("get_weather", "c1")
    story.answers("get_weather", "c1", response={"status": "error", "message": "no such city"})
    story.says("", author="planner", errorCode="QUOTA", errorMessage="no more")
    Story("s2").says("hello")
    assert find("kind:tool_call") == find("kind:error") == find("kind:user") == ["s1"]
    assert find("kind:agent") == ["s2"]
    assert find("-kind:agent") == ["s1"]
    assert find("tool:get_weather") == ["s1"]
    assert find("tool:weather") == []
    assert find("author:planner") == find("agent:planner") == ["s1"]
    assert find("error:quota") == find('error:"no more"') == find("error:city") == ["s1"]
    assert find("invocation:i1") == ["s1", "s2"]
    assert find("invocation:i") == find("-invocation:i1") == []


def test_session_is_found_by_event_or_invocation_id(find: Find):
    story = Story("s1")
    story.says("hello")
    story.invocation = "e-0b9c-12"
    story.add({"text": "an event:e1"})
    Story("s2").says("e-0b9c-12")
    assert find("event:" + story.event(2).event_id) == find("invocation:e-0b9c-12") == ["s1"]
    assert find("-invocation:e-0b9c-12") == ["s2"]
    assert find("event:nowhere") == find("event:e-0b9c-12") == []


def test_id_shared_by_very_many_events_is_found(find: Find, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(field_terms, "FEW", 0)
    Story("s1").says("hello")
    assert find("invocation:i1") == ["s1"]
    assert find("invocation:i2") == []


def test_sessions_are_found_by_their_attributes(find: Find):
    story = Story("s1", app="weather", user="ann")
    story.says("hi", usageMetadata={"totalTokenCount": 500})
    story.says("", errorCode="E", branch="a.b")
    Story("s2", app="office", user="tom")
    SessionTag.objects.create(session_id=story.pk, name="to look at")
    AgentSession.objects.filter(session_id="s2").update(origin="fork", pinned_at=1.0)
    for query in (
        *(
            "app:weather",
            "user:ann",
            "events>1",
            "events=2",
            "events!=0",
            "tokens>=500",
            "errors>0",
            "is:error",
        ),
        *(
            'tag:"To Look At"',
            "origin:live",
            "is:live",
            "-is:pinned",
            "duration>1s",
            "duration:2s",
            "branch:a.b",
        ),
        *("after:2023-11-14", "updated:>30d created:>30d app:weather", "before:2024-01-01 -app:office"),
    ):
        assert find(query) == (["s1", "s2"] if query == "after:2023-11-14" else ["s1"]), query
    assert find("is:pinned") == find("is:forked") == find("origin:fork") == find("-app:weather") == ["s2"]
    assert find("updated:>2026 created:>2026 -updated:<90 app:weather") == ["s1"]  # seconds, no year
    assert find("updated:<1d") == find("is:imported") == find("app:WEATHER") == []


def test_sessions_are_found_by_their_newest_run(find: Find):
    for status in ("running", "waiting", "done"):
        run = runs.create_run(Story(status).pk, {})
        Run.objects.filter(pk=run.pk).update(status=status, created_at=1.0)
    again = runs.create_run(AgentSession.objects.get(session_id="waiting").pk, {})
    assert find("is:waiting") == []
    Run.objects.filter(pk=again.pk).delete()
    assert find("is:waiting") == ["waiting"]
    assert find("is:running") == ["running"]


def test_sessions_are_found_by_age_in_their_apps_ttl(find: Find):
    Story("old")
    writes.create_session(writes.SessionKey("", "weather", "ann", "fresh"), now=time.time())
    app_settings.set_session_ttl("weather", 3600.0)
    assert find("is:expired") == ["old"]
    assert find("is:idle") == []


def test_eval_attempts_are_recognized_by_their_realm(find: Find):
    Story("s1", realm="eval/1")
    Story("s2")
    assert find("is:eval") == []
    assert find("-is:eval") == ["s2"]


def test_sessions_with_failed_tools_match_errors(find: Find):
    Story("mcp").answers("query", "c1", response={"content": [], "isError": True})
    Story("error").says("", errorCode="E", errorMessage="quota")
    Story("healthy").answers("query", "c1", response={"rows": 3})
    assert find("kind:error") == find("is:error") == find("errors>0") == ["error", "mcp"]
    assert find("-kind:error") == ["healthy"]
    assert AgentSession.objects.get(session_id="mcp").error_count == 1


def test_error_rail_lists_failed_tools(db: None):
    story = Story("s1")
    story.answers("query", "c1", response={"content": [], "isError": True})
    story.says("All went well.")
    story.says("", errorCode="E", errorMessage="quota")
    assert [seq for seq, _ in windows.error_rows(story.session)] == [3, 1]
