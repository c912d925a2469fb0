"""Problems of the state: for each detector a session with a hint, and one without."""

from __future__ import annotations

import json
import logging

import pytest

from sessions_app.plugins import PROBLEMS
from sessions_app.problems import Detector, DetectorScope, Problem, all_detectors, session_checks
from sessions_app.problems.detectors import stored_state
from sessions_app.problems.detectors.stored_state import DEEP_LEVELS, LARGE_BYTES, nesting_depth
from sessions_app.problems.registry import detect
from sessions_app.problems.state_queries import MAX_KEYS, read_state_evidence, read_state_size
from sessions_app.runs import lifecycle
from sessions_app.search import indexing as search_indexing
from sessions_app.store.models import AgentCard, Run
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def check_all() -> None:
    """Index and check all sessions, as the web process does."""
    search_indexing.index_all()
    session_checks.check_all()


def all_hints(story: Story) -> list[tuple[Detector, Problem]]:
    return list(detect(DetectorScope.STATE, read_state_evidence(story.session)))


def hints(story: Story, detector: Detector) -> dict[str, Problem]:
    return {problem.key: problem for code, problem in all_hints(story) if code == detector}


def event_numbers(hint: Problem) -> list[str | int]:
    return [link.target for link in hint.links]


def nest(levels: int) -> object:
    return [nest(levels - 1)] if levels else 1


# --- user data in session scope ---


@pytest.mark.parametrize(
    "key", ["email", "userName", "user_name", "preferred-language", "timezone", "userEmail", "user_language"]
)
def test_session_key_named_like_a_user_fact_is_reported(story, key):
    story.asks("hi")
    seq = story.says("x", delta={key: "something"})
    hint = hints(story, stored_state.user_data)[key]
    assert event_numbers(hint) == [seq]
    assert "`user:`" in stored_state.user_data.remedy


@pytest.mark.parametrize("key", ["user:email", "temp:email", "email_count", "city", "name", "language_model"])
def test_a_key_in_its_place_or_of_another_name_is_left_alone(story, key):
    story.says("x", delta={key: "something"}, keep_temp=True)
    assert hints(story, stored_state.user_data) == {}


def test_key_with_equal_value_in_all_sessions_of_one_user_is_reported():
    others = [Story(name) for name in ("before", "again")]
    story, stranger = Story("now"), Story("theirs", user="bob")
    for each in (*others, story):
        each.says("x", delta={"tier": "gold", "flag": True, "topic": each.key.session_id})
    stranger.says("x", delta={"tier": "free"})
    [hint] = hints(story, stored_state.user_data).values()
    assert hint.key == "tier"
    assert {link.session_id for link in hint.links} == {"now", "before", "again"}


def test_value_shared_with_other_users_is_no_user_fact():
    stories = [
        Story(name, user=user) for name, user in (("a", "ann"), ("b", "ann"), ("c", "ann"), ("d", "bob"))
    ]
    for each in stories:
        each.says("x", delta={"mode": "demo"})
    assert hints(stories[0], stored_state.user_data) == {}


@pytest.mark.parametrize("length", [201, 300, 20_000])
def test_long_value_repeated_in_sessions_is_reported(length):
    stories = [Story(name) for name in ("a", "b", "now")]
    for each in stories:
        each.says("x", delta={"profile": "p" * length})
    assert list(hints(stories[-1], stored_state.user_data)) == ["profile"]


@pytest.mark.parametrize("length", [300, 20_000])
def test_values_that_differ_at_their_end_are_not_the_same(length):
    stories = [Story(name) for name in ("a", "b", "now")]
    for each in stories:
        each.says("x", delta={"profile": "p" * length + each.key.session_id})
    assert hints(stories[-1], stored_state.user_data) == {}


def test_different_credentials_are_not_the_same_value():
    stories = [Story(name) for name in ("a", "b", "now")]
    for each in stories:
        each.says("x", delta={"service": {"authType": "apiKey", "apiKey": f"sk-{each.key.session_id}"}})
    assert hints(stories[-1], stored_state.user_data) == {}


def test_credential_repeated_in_sessions_is_reported():
    stories = [Story(name) for name in ("a", "b", "now")]
    for each in stories:
        each.says("x", delta={"service": {"authType": "apiKey", "apiKey": "sk-one"}})
    assert list(hints(stories[-1], stored_state.user_data)) == ["service"]


def test_a_seed_is_the_developers_word(story):
    seeded = Story("seeded", {"language": "en"})
    assert hints(seeded, stored_state.user_data) == {}


# --- intermediate data without temp: ---


def test_key_named_temporary_is_reported(story):
    seq = story.says("x", delta={"tmp_rows": [1], "scratchpad": "…", "temp": "x"})
    reported = hints(story, stored_state.intermediate)
    assert sorted(reported) == ["scratchpad", "temp", "tmp_rows"]
    assert event_numbers(reported["temp"]) == [seq]


def test_key_emptied_by_its_own_invocation_is_reported(story):
    first = story.says("x", delta={"step": "one"})
    last = story.says("y", delta={"step": None})
    assert event_numbers(hints(story, stored_state.intermediate)["step"]) == [first, last]


def test_key_emptied_later_or_named_temperature_is_not_reported(story):
    story.says("x", delta={"basket": ["tea"], "temp": 21.5, "template": "a", "attempt": 1})
    story.invocation = "i2"
    story.says("y", delta={"basket": []})
    assert hints(story, stored_state.intermediate) == {}


# --- a temp: key needed in a later invocation ---


def card(instruction: str) -> None:
    agent = {"name": "root", "sub_agents": [{"name": "writer", "instruction": instruction}]}
    AgentCard.objects.create(app_name="weather", description=json.dumps(agent))


def test_temp_key_used_by_instruction_of_later_invocation_is_reported(story):
    card("Improve {temp:draft?} for the reader.")
    wrote = story.says("x", delta={"temp:draft": "d"}, author="writer", keep_temp=True)
    story.invocation = "i2"
    later = story.says("y", author="writer")
    hint = hints(story, stored_state.temp_lost)["temp:draft"]
    assert event_numbers(hint) == [wrote, later]


def test_rewritten_or_unused_temp_key_is_not_reported(story):
    card("Improve {temp:draft}.")
    for invocation in ("i1", "i2"):
        story.invocation = invocation
        delta = {"temp:draft": "d", "temp:other": 1}
        story.says("x", delta=delta, author="writer", keep_temp=True)
    story.invocation = "i3"
    story.says("y", author="greeter")
    assert hints(story, stored_state.temp_lost) == {}


def test_run_failed_for_missing_temp_key_is_reported(story):
    story.says("x", delta={"temp:raw": "d"}, keep_temp=True)
    story.invocation = "i2"
    last = story.asks("and now?")
    run = lifecycle.create_run(story.pk, {})
    Run.objects.filter(pk=run.pk).update(
        status=Run.Status.FAILED,
        invocation_id="i2",
        last_seq=last,
        error="Context variable not found: `temp:raw`.",
    )
    assert event_numbers(hints(story, stored_state.temp_lost)["temp:raw"]) == [1, last]
    Run.objects.filter(pk=run.pk).update(error="Context variable not found: `temp:raw_text`.")
    assert hints(story, stored_state.temp_lost) == {}


# --- an app: key overwritten by several users' sessions ---


def test_app_key_overwritten_by_several_users_is_reported(story):
    other = Story("theirs", user="bob")
    mine = story.says("x", delta={"app:theme": "dark"})
    theirs = other.says("y", delta={"app:theme": "light"})
    hint = hints(story, stored_state.app_contested)["app:theme"]
    assert [(link.session_id, link.target) for link in hint.links] == [
        ("theirs", theirs),
        ("s1", mine),
    ]


def test_app_key_of_one_user_or_counter_is_not_reported():
    stories = [Story("a"), Story("b"), Story("c", {"app:motd": "hi"}, user="bob")]
    for number, each in enumerate(stories):
        delta = {"app:visits": 9 + number}
        if each.key.user_id == "ann":
            delta["app:theme"] = number
        each.says("x", delta=delta)
    assert hints(stories[0], stored_state.app_contested) == {}


def test_lost_count_is_reported():
    for number, user in ((1, "ann"), (2, "bob"), (2, "eve")):
        story = Story(f"of {user}", user=user)
        story.says("x", delta={"app:visits": number})
    assert list(hints(story, stored_state.app_contested)) == ["app:visits"]


# --- a user: key used in one session only ---


def step(story: Story, times: int) -> None:
    for number in range(times):
        story.invocation = f"i{number}"
        story.says(
            "x", delta={"user:step": number, "user:tier": "gold"} if number == 0 else {"user:step": number}
        )


def test_user_key_rewritten_by_one_session_is_reported(story):
    Story("another").says("y")
    step(story, 4)
    reported = hints(story, stored_state.user_lonely)
    assert list(reported) == ["user:step"]
    assert event_numbers(reported["user:step"]) == [1, 4]


def test_user_key_of_several_sessions_is_not_reported(story):
    step(story, 4)
    assert hints(story, stored_state.user_lonely) == {}
    Story("another").says("y", delta={"user:step": 9})
    assert hints(story, stored_state.user_lonely) == {}


# --- inconsistent naming ---


def test_names_differing_in_style_case_or_number_are_reported(story):
    delta = {"userTier": 1, "user_tier": 2, "City": "x", "city": "y", "order": "a", "orders": "b"}
    story.says("x", delta=delta)
    reported = hints(story, stored_state.naming)
    assert set(reported) == set(delta)
    assert "`user_tier`" in reported["userTier"].text


def test_name_of_different_style_is_reported(story):
    story.says("x", delta={"lastCity": 1, **{f"some_key_{letter}": 1 for letter in "abcde"}})
    assert list(hints(story, stored_state.naming)) == ["lastCity"]


def test_unrelated_names_are_not_reported_as_variants(story):
    delta = {
        "city": "Rome",
        "cities": ["Rome"],
        "last_city": "Rome",
        "user:last_city": "Rome",
        "n": 1,
        "日本": 1,
    }
    story.says("x", delta=delta)
    assert hints(story, stored_state.naming) == {}


# --- nesting, size, not JSON ---


def test_deep_nesting_is_reported_and_shallow_is_not(story):
    seq = story.says("x", delta={"deep": nest(DEEP_LEVELS + 1), "flat": nest(DEEP_LEVELS), "t": "[[[[[[[["})
    reported = hints(story, stored_state.nesting)
    assert list(reported) == ["deep"]
    assert event_numbers(reported["deep"]) == [seq]


@pytest.mark.parametrize(
    ("text", "levels"),
    [("1", 0), ('"[["', 0), (r'"\"[["', 0), ("[]", 1), ('{"a":[{"]":1}]}', 3), ('{"a":["cut [[', 2)],
)
def test_depth_counts_brackets_outside_of_strings(text, levels):
    assert nesting_depth(text) == levels


def test_value_above_eight_kilobytes_is_reported_in_any_script(story):
    over = LARGE_BYTES - 1  # with its two quotation marks one byte too many
    story.says("x", delta={"user:big": "x" * over, "cjk": "語" * 2800, "small": "x" * (over - 1)})
    reported = hints(story, stored_state.large)
    assert sorted(reported) == ["cjk", "user:big"]
    assert "artifact" in stored_state.large.remedy


def test_size_of_each_scope_is_reported(story):
    story.says("x", delta={"a": "é", "b": 12, "user:c": [1, 2]})
    assert read_state_size(story.session).sizes == {"session": 6, "user": 5}


def test_scope_size_includes_keys_that_are_not_checked(story):
    story.says("x", delta={f"k{number:04}": 7 for number in range(MAX_KEYS + 20)})
    size = read_state_size(story.session)
    assert len(read_state_evidence(story.session).keys) == MAX_KEYS
    assert (size.sizes, size.unread) == ({"session": MAX_KEYS + 20}, 20)


def test_converted_value_is_reported_and_plain_json_is_not(story):
    story.says("x", delta={"when": float("nan"), "plain": 1.5})
    reported = hints(story, stored_state.not_json)
    assert list(reported) == ["when"]
    assert "NaN" in reported["when"].text


# --- the whole ---


@pytest.mark.parametrize("events", [1, 60])
def test_hints_cost_the_same_number_of_queries_at_any_length(story, django_assert_num_queries, events):
    Story("other").says("x", delta={"a": 1})
    card("{temp:t}")
    for number in range(events):
        story.invocation = f"i{number}"
        delta = {"a": number, f"k{number}": 1, "user:u": number, "app:v": number, "temp:t": 1}
        story.says("x", delta=delta, keep_temp=True)
    session = story.session
    with django_assert_num_queries(12):
        read_state_evidence(session)


def test_an_empty_session_has_no_hints(story):
    assert all_hints(story) == []


def test_removed_key_is_ignored(story):
    from sessions_app.store.sessions import writes

    story.says("x", delta={"tmp_rows": [1]})
    writes.edit_state(story.key, {}, removed=["tmp_rows"])
    assert all_hints(story) == []


# --- detectors of installed packages ---

DETECTORS = """
from sessions_app.problems import DetectorScope, Problem, detector

@detector("shouting", "Shouting key", scope=DetectorScope.STATE, remedy="Write it in lower case.")
def shouting(evidence):
    for key in evidence.keys:
        if key.key.isupper():
            yield Problem("is written in capitals.", key=key.name)

@detector("broken", "Broken detector", scope=DetectorScope.STATE, remedy="None.")
def broken(evidence):
    yield Problem("is found before the detector fails.", key="before")
    raise ValueError("no such <key>")

@detector("large", "Another detector with a code that is taken", scope=DetectorScope.STATE, remedy="None.")
def large(evidence):
    raise AssertionError
"""


def test_detector_of_installed_package_gives_hints(story, install_plugin):
    install_plugin(PROBLEMS, "detectors_of_plugin", DETECTORS)
    story.says("x", delta={"CITY": "Oslo"})
    assert [(detector.code, problem.key) for detector, problem in all_hints(story)] == [
        ("shouting", "CITY"),
        ("detector-failed", ""),
    ]


def test_failing_detector_is_logged_and_shown_as_note(story, install_plugin, get, caplog):
    install_plugin(PROBLEMS, "detectors_of_plugin", DETECTORS)
    story.says("x", delta={"city": "Oslo"})
    check_all()
    page = get(f"/sessions/id/{story.pk}/problems/?scope=state").text
    assert "Detector failed" in page
    assert "The detector broken raised ValueError: no such <key>" in page
    assert "ValueError: no such <key>" in caplog.text


@pytest.mark.parametrize(
    ("check", "failure"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("yield Problem('x', key=None)", "TypeError: key of Problem is not text: None"),
        ("yield Problem('x', links=[Link('event', 1, 5)])", "TypeError: label of Link is not text: 5"),
        ("yield Problem('x', links=[Link('event', None)])", "TypeError: target or session of Link have"),
        ("yield Problem('x', links=[5])", "TypeError: seq or links of Problem have another type: 0"),
        ("raise ValueError(chr(0xD800))", "ValueError: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_detector_that_exits_or_finds_no_texts_is_noted(check, failure, story, install_plugin, caplog):
    caplog.set_level(logging.CRITICAL, "sessions_app.problems")  # pytest cannot report half of a character
    head = """
from sessions_app.problems import DetectorScope, Link, Problem, detector
@detector("odd", "Odd", scope=DetectorScope.STATE, remedy="")
"""
    install_plugin(PROBLEMS, "odd_detector", f"{head}def odd(evidence):\n    {check}\n")
    [(detector, problem)] = all_hints(story)
    assert detector.code == "detector-failed"
    assert problem.text.startswith(f"The detector odd raised {failure}")


@pytest.mark.parametrize(
    "source",
    [
        "raise SystemExit(3)",
        "from sessions_app.problems import detector\n@detector(['odd'], 'Odd', remedy='')\ndef odd(evidence): ...",
        "from sessions_app.problems import detector\n@detector('o', 'O', remedy='', scope='x')\ndef odd(evidence): ...",
    ],
)
def test_plugin_that_exits_or_names_no_texts_is_omitted(source, install_plugin, caplog):
    expected = all_detectors()
    install_plugin(PROBLEMS, "odd_detector", source)
    assert all_detectors() == expected
    assert "The plugin odd_detector = odd_detector of odd_detector cannot be loaded." in caplog.text


def test_plugin_without_usable_detectors_does_not_affect_others(install_plugin, caplog):
    expected = all_detectors()
    install_plugin(PROBLEMS, "not_importable", "import no_such_module")
    install_plugin(PROBLEMS, "without_detectors", "")
    assert all_detectors() == expected
    assert "not_importable" in caplog.text


def test_detectors_of_a_module_named_twice_are_registered_once(install_plugin):
    install_plugin(PROBLEMS, "detectors_of_plugin", DETECTORS)
    install_plugin(PROBLEMS, "same_detectors", "from detectors_of_plugin import *")
    assert list(all_detectors())[-2:] == ["shouting", "broken"]
