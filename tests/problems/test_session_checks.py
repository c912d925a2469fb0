"""Storage of problems: the cursor, checks that are repeated, limits, deletion, search, pages and API."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from sessions_app.delivery.failure import Failure
from sessions_app.plugins import PROBLEMS
from sessions_app.problems import all_detectors, problem_queries, session_checks
from sessions_app.runs import lifecycle
from sessions_app.search import indexing as search_indexing
from sessions_app.search.execution import session_queries
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import deletion
from sessions_app.store.models import AgentSession, Run, SessionProblem, SessionTrait, Trace
from sessions_app.store.traces import records
from sessions_app.store.traces.log_records import NEAR_RECORDS
from tests.pages.html import parse as parse_html
from tests.timeline.logs import log
from tests.timeline.story import START, Story

pytestmark = pytest.mark.django_db


def answer(story: Story, call_id: str, response: dict[str, str]) -> None:
    story.add({"functionResponse": {"id": call_id, "name": "look", "response": response}})


def fail_tools(story: Story, count: int) -> None:
    for number in range(count):
        story.invocation = f"i{story.told}"
        story.calls("look", f"c{number}", city=str(number))
        answer(story, f"c{number}", {"error": f"no city {number}"})


def index() -> None:
    search_indexing.index_all()
    session_checks.check_all()


def found_by(query: str) -> list[int]:
    return sorted(
        session_queries.Search(parse(query))
        .filter_rows(AgentSession.objects.all())
        .values_list("pk", flat=True)
    )


def rows_of(story: Story) -> list[tuple[str, int, str]]:
    rows = SessionProblem.objects.filter(session=story.pk, scope="invocation").order_by("seq", "pk")
    return list(rows.values_list("code", "seq", "invocation_id"))


def test_problem_is_stored_and_counted(story):
    fail_tools(story, 2)
    index()
    assert rows_of(story) == [("tool-error", 2, "i0"), ("tool-error", 4, "i2")]
    assert story.session.problem_count == 2
    assert story.session.problems_seq == 4


def test_events_are_checked_in_batches_with_the_start_of_their_invocation(story):
    for number in range(4):
        if number == 2:  # the third call is the last event of a batch, its answer the first of the next
            for _ in range(session_checks.BATCH_EVENTS - story.told - 1):
                story.says(f"thought {story.told}")
        story.calls("look", f"c{story.told}", city="Rome")
        answer(story, f"c{story.told - 1}", {"error": "no"})
    index()
    batch = session_checks.BATCH_EVENTS
    assert rows_of(story) == [
        ("repeated-call", 0, "i1"),
        *[("tool-error", seq, "i1") for seq in (2, 4, batch + 1, batch + 3)],
    ]
    assert "4 times" in SessionProblem.objects.get(code="repeated-call").text


def compact(story: Story, first: int, last: int) -> int:
    """Append a compaction of the events from `first` to `last`."""
    span = {"startTimestamp": story.event(first).timestamp, "endTimestamp": story.event(last).timestamp}
    content = {"role": "model", "parts": [{"text": "They spoke of cities."}]}
    return story.add(author="user", actions={"compaction": {**span, "compactedContent": content}})


def test_call_repeated_after_its_result_was_summarized_is_a_note(story):
    story.calls("look", "c1", city="Rome", day=1)
    story.answers("look", "c1")
    compact(story, 1, 2)
    story.invocation = "i2"
    story.calls("look", "c2", day=1, city="Rome")
    story.answers("look", "c2")
    compact(story, 1, 5)
    index()
    assert rows_of(story) == [("summarized-call", 5, "i2")]
    problem = SessionProblem.objects.get()
    assert 'look again with {"city":"Rome","day":1}' in problem.text
    assert [target for _, target, _ in json.loads(problem.links)] == [1, 3, 4]
    assert story.session.problem_count == 0


def test_call_repeated_before_its_summary_is_no_problem_after_it(story):
    for call_id in ("c1", "c2"):
        story.calls("look", call_id, city="Rome")
        story.answers("look", call_id)
    compact(story, 1, 4)
    story.invocation = "i2"
    story.calls("look", "c3", city="Rome")
    story.answers("look", "c3")
    index()
    assert rows_of(story) == []


def test_only_the_first_repetition_after_a_summary_is_a_problem(story):
    story.calls("look", "c1", city="Rome")
    story.answers("look", "c1")
    compact(story, 1, 2)
    story.invocation = "i2"
    for call_id in ("c2", "c3"):
        story.calls("look", call_id, city="Rome")
        story.answers("look", call_id)
    index()
    assert rows_of(story) == [("summarized-call", 5, "i2")]


def test_summarized_call_is_reported_once_its_result_arrives(story):
    story.calls("look", "c1", city="Rome")
    story.answers("look", "c1")
    compact(story, 1, 2)
    story.invocation = "i2"
    story.calls("look", "c2", city="Rome")
    index()
    assert rows_of(story) == []
    story.answers("look", "c2")
    index()
    assert rows_of(story) == [("summarized-call", 5, "i2")]


def test_calls_with_other_arguments_or_before_the_compaction_are_no_problem(story):
    story.calls("look", "c1", city="Rome")
    story.calls("look", "c2", city="Rome")
    compact(story, 1, 2)
    story.calls("look", "c3", city="Oslo")
    index()
    assert rows_of(story) == []


def test_rewound_calls_are_not_compared_with_later_ones(story):
    story.calls("look", "c1", city="Rome")
    story.answers("look", "c1")
    compact(story, 1, 2)
    story.invocation = "i2"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    story.invocation = "i3"
    story.calls("look", "c2", city="Rome")
    story.answers("look", "c2")
    index()
    assert rows_of(story) == []


def test_checking_again_changes_nothing(story):
    fail_tools(story, 3)
    index()
    before = list(SessionProblem.objects.values_list("pk", flat=True))
    AgentSession.objects.update(problems_seq=-1)
    index()
    assert list(SessionProblem.objects.values_list("pk", flat=True)) == before
    assert story.session.problem_count == 3


def test_end_of_a_run_is_checked_after_its_events(story):
    story.asks("go")
    index()
    assert story.session.problem_count == 0
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.pk, Run.Status.CRASHED, Failure("", "Its process ended."), invocation_id="i1")
    index()
    assert [code for code, _, _ in rows_of(story)] == ["crashed-run"]


@pytest.mark.parametrize(
    ("status", "error", "problem"),
    [
        (Run.Status.CRASHED, "Its process ended.", ("crashed-run", "error", 1)),
        (Run.Status.CANCELLED, "", ("ended-run", "note", 0)),
    ],
)
def test_run_whose_process_died_or_that_was_cancelled(story, status, error, problem):
    story.asks("go")
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.pk, status, Failure("", error), invocation_id="i1")
    index()
    row = SessionProblem.objects.get()
    assert (row.code, row.severity, story.session.problem_count) == problem
    assert json.loads(row.links) == [["run", run.pk, ""]]


def test_invocation_of_another_program_that_was_cut_off(story):
    story.asks("go")
    Trace.objects.create(session=story.session, invocation_id="i1", started_at=1.0)
    records.close_unfinished(2.0, session=story.session)
    AgentSession.objects.update(problems_seq=-1)
    index()
    assert [(row.code, row.text) for row in SessionProblem.objects.all()] == [
        ("ended-run", "The invocation was cut off.")
    ]


def test_run_that_never_began_is_a_problem_of_the_session():
    story = Story()
    run = lifecycle.create_run(story.pk, {})
    lifecycle.end_queued(run.pk, Run.Status.FAILED, Failure("AgentLoadError", "No module named 'x'"))
    index()
    assert rows_of(story) == [("run-failed", 0, "")]


def test_session_that_changed_meanwhile_is_checked_again(story):
    fail_tools(story, 1)
    search_indexing.index_all()
    checked = session_checks.check_next()
    assert checked is not None
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.pk, Run.Status.FAILED, Failure("ValueError", "bad value"), invocation_id="i0")
    assert session_checks.store(checked) is False
    index()
    assert [code for code, _, _ in rows_of(story)] == ["run-failed", "tool-error"]


def test_ten_thousand_problems_are_bounded_and_counted(
    story, client, monkeypatch, django_assert_max_num_queries
):
    monkeypatch.setattr(session_checks, "MAX_STORED", 20)
    fail_tools(story, 60)
    index()
    rows = SessionProblem.objects.filter(session=story.pk)
    assert rows.count() == 20
    assert rows.order_by("seq").first().seq == 82
    assert (story.session.problem_count, story.session.problems_beyond) == (60, 40)
    AgentSession.objects.update(problems_seq=-1)
    index()
    assert (story.session.problem_count, story.session.problems_beyond) == (60, 40)
    with django_assert_max_num_queries(12):
        page = client.get(f"/sessions/id/{story.pk}/problems/")
    assert "40 more problems are not listed" in parse_html(page.content).text


def test_many_problems_of_one_invocation_are_counted_in_one_row(story):
    for number in range(30):
        story.calls("look", f"c{number}", city=str(number))
        answer(story, f"c{number}", {"error": "no"})
    index()
    assert len(rows_of(story)) == session_checks.SAME_STORED
    assert story.session.problem_count == 30


def test_problems_go_with_their_session(story):
    fail_tools(story, 1)
    index()
    deletion.delete_for_good(story.pk)
    assert not SessionProblem.objects.exists()


def test_search_finds_sessions_by_code_and_number(story):
    other = Story("other")
    other.says("fine")
    fail_tools(story, 2)
    index()
    assert found_by("problem:tool-error") == found_by("problems>1") == [story.pk]
    assert found_by("-problem:tool-error") == found_by("problems=0") == [other.pk]
    [hit] = session_queries.Search(parse("problem:tool-error")).hits([story.session]).values()
    assert hit.seq == 4


def test_code_that_is_gone_is_not_found_any_more(story):
    run = lifecycle.create_run(story.pk, {})
    story.asks("go")
    lifecycle.finish(run.pk, Run.Status.FAILED, Failure("", "no such thing"), invocation_id="i1")
    index()
    Run.objects.update(status=Run.Status.DONE)
    AgentSession.objects.update(problems_seq=-1)
    index()
    assert found_by("problem:run-failed") == []


def test_rebuilding_the_index_checks_again(story):
    fail_tools(story, 1)
    index()
    search_indexing.reset()
    assert not SessionTrait.objects.exists()
    index()
    assert found_by("problem:tool-error") == [story.pk]


def test_page_shows_what_is_found_so_far_and_asks_again_until_all_events_are_checked(story, get):
    fail_tools(story, 1)
    page = get(f"/sessions/id/{story.pk}/problems/")
    [waiting] = [line for line in page.all("p") if "hx-get" in line.attrs]
    assert waiting.text == "Checking 2 events…"
    assert "No problems found" not in page.text
    assert not SessionProblem.objects.exists()
    index()
    page = get(f"/sessions/id/{story.pk}/problems/")
    assert not [line for line in page.all("p") if "hx-get" in line.attrs]
    assert "Tool failed. look answered with an error in its result: no city 0" in page.text
    assert page.one("p", "problem-links").one("a").attrs["href"].endswith("?seq=2")


def test_page_without_problems_says_so(story, get):
    story.says("fine")
    index()
    assert "No problems found" in get(f"/sessions/id/{story.pk}/problems/").text


def test_problems_of_one_code_and_of_one_invocation(story, get):
    fail_tools(story, 2)
    index()
    assert len(get(f"/sessions/id/{story.pk}/problems/?invocation=i2").all("div", "found-problem")) == 1
    assert not get(f"/sessions/id/{story.pk}/problems/?code=timeout").all("div", "found-problem")


def test_problem_links_to_the_log_of_its_invocation(story, get):
    fail_tools(story, 2)
    traces = [
        Trace.objects.create(session=story.session, invocation_id=f"i{n}", started_at=1.0) for n in (0, 2)
    ]
    log(story, 2, "no such city")
    index()
    links = [line.all("a") for line in get(f"/sessions/id/{story.pk}/problems/").all("p", "problem-links")]
    assert [[link.text for link in line] for line in links] == [["event 2", "log"], ["event 4"]]
    assert links[0][1].attrs["href"] == f"/traces/{traces[0].pk}/log/"


def test_problem_links_to_its_log_line_among_the_lines_around_it(story, get):
    fail_tools(story, 1)
    trace = Trace.objects.create(session=story.session, invocation_id="i0", started_at=1.0)
    log(story, 2, *[f"line {number}" for number in range(50)])
    [record] = log(story, 2, "no city 0", level=40)
    index()
    [href] = [
        link.attrs["href"]
        for link in get(f"/sessions/id/{story.pk}/problems/").one("p", "problem-links").all("a")
        if link.text == "log line"
    ]
    assert href == f"/traces/{trace.pk}/log/?near={record.pk}#record-{record.pk}"
    lines = get(href.partition("#")[0]).all("li", "log-record")
    assert len(lines) == NEAR_RECORDS + 1
    assert [line.attrs["id"] for line in lines if "aria-current" in line.attrs] == [f"record-{record.pk}"]
    timeline = get(f"/sessions/id/{story.pk}/").one("div", "problems")
    assert "log line" in [link.text for link in timeline.all("a")]


def test_home_page_shows_the_problems_of_the_newest_sessions(story, get):
    fail_tools(story, 2)
    index()
    [badge] = get("/").all("a", "badge-warn")
    assert (badge.text, badge.attrs["href"]) == ("2 problems", f"/sessions/id/{story.pk}/problems/")


def test_session_page_links_to_notes_if_there_is_no_problem(story, get):
    story.says("fine")
    links = [link.attrs["href"] for link in get(f"/sessions/id/{story.pk}/").all("a")]
    assert f"/sessions/id/{story.pk}/problems/" in links


def test_lists_on_screen_get_the_number_of_problems_later(story, client, get):
    run = lifecycle.create_run(story.pk, {})
    fail_tools(story, 1)
    lifecycle.finish(run.pk, Run.Status.DONE, invocation_id="i0")
    watches = [get(path).one("div", id="watch").attrs["hx-get"] for path in ("/sessions/", "/runs/")]
    assert [client.get(watch).status_code for watch in watches] == [204, 204]
    index()
    for watch in watches:
        badge = parse_html(client.get(watch).content).one("a", "badge")
        assert badge.attrs["href"].startswith(f"/sessions/id/{story.pk}/problems/")


DETECTORS = """
from sessions_app.problems import Problem, detector

@detector("shouting", "Shouting", remedy="Whisper.")
def shouting(evidence):
    yield Problem("somebody shouts")

@detector("broken", "Broken", remedy="None.")
def broken(evidence):
    raise ValueError("no such <key>")

@detector("endless", "Endless", remedy="None.")
def endless(evidence):
    while True:
        yield Problem("again")

@detector("odd", "Odd", remedy="None.")
def odd(evidence):
    yield "a text"

@detector("tool-error", "Same code as a built-in detector", remedy="None.")
def same_code(evidence):
    raise AssertionError
"""


@pytest.fixture
def installed_detectors(install_plugin):
    all_detectors.cache_clear()
    install_plugin(PROBLEMS, "detectors_of_plugin", DETECTORS)
    yield
    all_detectors.cache_clear()


def test_detectors_of_a_package(story, installed_detectors, caplog):
    story.says("fine")
    with caplog.at_level(logging.ERROR):
        index()
    problems = problem_queries.read_problems(story.session).rows
    texts = [problem.row.text for problem in problems]
    assert "somebody shouts" in texts
    assert "The detector broken raised ValueError: no such <key>" in texts
    assert "The detector odd raised TypeError: A detector yields Problem objects, not str." in texts
    assert texts.count("again") == session_checks.SAME_STORED * 2
    assert "Another Detector 'tool-error' is omitted: the name is in use." in caplog.text


def test_damaged_event_does_not_stop_the_check(story, caplog):
    story.calls("look", "c1")
    answer(story, "c1", {"error": "no"})
    story.session.events.update(data="{")
    index()
    assert story.session.problems_seq == 2


def test_problem_that_an_earlier_invocation_had_is_shown_in_short(story):
    for invocation_id in ("i1", "i2"):
        SessionProblem.objects.create(
            session_id=story.pk,
            invocation_id=invocation_id,
            code="dead-toolset",
            severity="error",
            text="McpToolset of agent librarian: Connection closed.",
        )
    problems = problem_queries.problems_by_invocation(story.session, ["i1", "i2"])
    assert [(problems[name][0].is_known, problems[name][0].repeats_error) for name in ("i1", "i2")] == [
        (False, False),
        (True, True),
    ]


def nest(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


def test_state_deeper_than_the_limit_is_a_problem_of_the_event_that_wrote_it(story):
    story.add(delta={"fine": nest(100), "deep": nest(101)})
    index()
    [problem] = SessionProblem.objects.filter(session=story.pk, scope="invocation")
    assert (problem.code, problem.seq, problem.severity) == ("altered-value", 1, "warning")
    assert problem.text.startswith("The value of deep was nested deeper than 100 levels")
    assert "list nested deeper than 100 levels" in story.event(1).data


def test_content_that_is_cut_off_is_a_problem_of_its_event(story):
    story.calls("look", "c1", city=nest(2_000))
    index()
    assert ("altered-value", 1, "i1") in rows_of(story)
    assert "values cut off" in story.event(1).decoded_summary["flags"]


def test_state_inside_itself_is_a_problem(story):
    value: list[Any] = []
    value.append(value)
    story.add(delta={"loop": value})
    index()
    assert rows_of(story) == [("altered-value", 1, "i1")]


def test_deep_value_with_which_a_session_began_is_a_problem_of_the_session(db):
    story = Story(initial={"deep": nest(101), "a\0b": 1, "number": float("nan")})
    story.says("hello")
    index()
    problems = SessionProblem.objects.filter(session=story.pk, code="altered-value").order_by("text")
    assert [problem.seq for problem in problems] == [0, 0]
    assert [problem.text.split(" was ")[0] for problem in problems] == [
        "The value of deep",
        "a\N{REPLACEMENT CHARACTER}b",
    ]


def test_name_of_a_key_that_no_store_holds_is_a_problem(story):
    story.add(delta={"a\0b": 1, "user:\ud800": 2, "plain": 3})
    index()
    texts = [
        problem.text for problem in SessionProblem.objects.filter(session=story.pk, code="altered-value")
    ]
    assert [text.split(" ")[0] for text in texts] == [
        "a\N{REPLACEMENT CHARACTER}b",
        "user:\N{REPLACEMENT CHARACTER}",
    ]


@pytest.fixture
def seed_file(tmp_path: Path, settings) -> Path:
    """The initial state file of the agent of a story, older than its session."""
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    folder = tmp_path / "weather"
    folder.mkdir()
    (folder / "agent.py").write_text("root_agent = None\n")
    return folder / "initial_state.json"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"city": "Rome",}', "line 1 column 17"),
        (b"[1]", "holds a list, not an object"),
        (b"null", "holds null, not an object"),
        (b'{"city": "K\xf6ln"}', "'utf-8' codec can't decode byte 0xf6"),
        (b"[" * 100_000, "recursion"),
    ],
    ids=["comma", "list", "null", "latin-1", "too deep"],
)
def test_initial_state_file_that_cannot_be_used_is_a_problem(story, seed_file, content, reason):
    seed_file.write_bytes(content)
    os.utime(seed_file, (START - 1, START - 1))
    story.says("hello")
    index()
    [problem] = SessionProblem.objects.filter(session=story.pk)
    assert (problem.code, problem.seq) == ("unusable-initial-state", 0)
    assert reason in problem.text


def test_initial_state_file_that_cannot_be_read_is_a_problem(story, seed_file):
    seed_file.mkdir()
    os.utime(seed_file, (START - 1, START - 1))
    story.says("hello")
    index()
    [problem] = SessionProblem.objects.filter(session=story.pk)
    assert "it cannot be read: Is a directory" in problem.text


def test_initial_state_file_that_is_a_pipe_is_a_problem(story, seed_file):
    os.mkfifo(seed_file)
    os.utime(seed_file, (START - 1, START - 1))
    story.says("hello")
    index()
    [problem] = SessionProblem.objects.filter(session=story.pk)
    assert "it cannot be read: It is not a regular file" in problem.text


def test_initial_state_file_that_became_invalid_later_is_no_problem_of_the_session(story, seed_file):
    seed_file.write_text("{")
    story.says("hello")
    index()
    assert rows_of(story) == []


def test_usable_initial_state_file_is_no_problem(story, seed_file):
    seed_file.write_bytes('{"city": "Köln"}'.encode("utf-16"))
    os.utime(seed_file, (START - 1, START - 1))
    story.says("hello")
    index()
    assert rows_of(story) == []
