"""`run_evals --shard` and `merge_evals`: parts of the cases run on several machines and become one run."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from evals_app.analysis.exports import run_json
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.deletion import delete_run
from evals_app.runs.shards import Shard
from sessions_app.store.models import AgentSession, Event, EventJudgement, NestedRun, StateChange, UserState
from sessions_app.transfer import realm_copy
from tests.evals import shard_stores
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error
from tests.evals.shard_stores import merge

SHARDS = 3


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """An agent that keeps state and files, with an evalset of five cases, of which one fails, and one of two."""
    folder = tmp_path_factory.mktemp("agents") / "keeper"
    folder.mkdir()
    (folder / "agent.py").write_text(shard_stores.AGENT)
    cases = [case(name, turn(name, name)) for name in ("a", "b", "c", "d")]
    write(folder, "five.evalset.json", evalset(*cases, case("never", turn("e", "f"))))
    write(folder, "two.evalset.json", evalset(*cases[:2]))
    return folder


@pytest.fixture(scope="module")
def shard_files(agent, tmp_path_factory):
    """The stores of the shards."""
    folder = tmp_path_factory.mktemp("shards")
    files = [folder / f"{number}.sqlite3" for number in range(1, SHARDS + 1)]
    for number, file in enumerate(files, 1):
        printed = shard_stores.command(file, *order(agent), "--shard", f"{number}/{SHARDS}", code=0)
        assert "(run " in printed
    return files


@pytest.fixture(scope="module")
def main_file(agent, tmp_path_factory):
    """The store of another machine with a whole run of both evalsets, and another of the smaller one."""
    file = tmp_path_factory.mktemp("main") / "main.sqlite3"
    shard_stores.command(file, *order(agent, "five", "two", "two"), code=1)
    shard_stores.change(file, "UPDATE evals_app_evalrun SET created_at = created_at - 100000")
    return file


@pytest.fixture
def copies(shard_files, tmp_path):
    """Copies of the stores, to change."""
    return [Path(shutil.copy(file, tmp_path)) for file in shard_files]


def order(agent, *evalsets):
    return [
        "run_evals",
        agent,
        *(evalsets or ("five", "two")),
        "--num-runs=2",
        "--metrics=response_match_score",
        "--criteria=response_match_score=1",
    ]


def refusal(*arguments):
    """Return the message with which the command refuses these arguments; it has written nothing."""
    with pytest.raises(CommandError) as error:
        merge(*arguments)
    assert error.value.returncode == 2
    assert not EvalRun.objects.exists()
    assert not AgentSession.objects.exists()
    return str(error.value)


@given(st.lists(st.integers(0, 30), max_size=6), st.integers(1, 12))
def test_every_case_is_in_one_shard_and_shards_differ_by_one_case(sizes, count):
    shares = []
    for number in range(1, count + 1):
        shard, chosen = Shard.parse(f"{number}/{count}"), []
        for index, size in enumerate(sizes):
            cases = [(index, place) for place in range(size)]
            chosen += shard.choose(cases)
            shard = shard.after(cases)
        shares.append(chosen)
    everything = [(index, place) for index, size in enumerate(sizes) for place in range(size)]
    assert sorted(itertools.chain(*shares)) == everything
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_merged_run_is_like_a_run_of_all_cases(store, agent, shard_files, tmp_path):
    files = {name: tmp_path / name for name in ("json", "junit", "csv", "html", "markdown")}
    code, out = merge(*shard_files, *(f"--{name}={path}" for name, path in files.items()))
    assert code == 1, out
    five, two = EvalRun.objects.order_by("evalset__evalset_id")
    assert (five.status, five.shard, five.total, five.passed, five.failed) == ("done", "", 10, 8, 2)
    assert (two.status, two.total, two.passed) == ("done", 4, 4)
    assert five.started_at <= five.finished_at
    names = ["a", "b", "c", "d", "never"]
    assert list(five.attempts.order_by("case_index", "repetition").values_list("case_id", "repetition")) == [
        (name, repetition) for name in names for repetition in (1, 2)
    ]
    assert "8 of 10 passed, 2 failed in" in out
    assert sorted(run["evalset"] for run in json.loads(files["json"].read_text())["runs"]) == ["five", "two"]
    assert len(ElementTree.fromstring(files["junit"].read_text())) == 2
    assert "**Not passed (1)**" in files["markdown"].read_text()


def test_merged_run_equals_a_run_of_all_cases(store, shard_files, main_file):
    merge(*shard_files, main_file)
    whole, merged = EvalRun.objects.filter(evalset__evalset_id="five").order_by("created_at")
    facts, merged_facts = (json.loads(run_json.as_json([run]))["runs"][0] for run in (whole, merged))
    for attempt, copy in zip(facts.pop("attempts"), merged_facts.pop("attempts"), strict=True):
        assert (attempt["case"], attempt["status"]) == (copy["case"], copy["status"])
        assert _scores(attempt) == _scores(copy)
    different = {name for name in facts if facts[name] != merged_facts[name]}
    assert different == {"id", "created_at", "started_at", "finished_at"}


def _scores(attempt):
    return [(score["metric"], score["turn"], score["status"]) for score in attempt["metrics"]]


def test_attempts_of_a_merged_run_have_their_sessions_state_and_traces(store, shard_files):
    merge(*shard_files)
    run = EvalRun.objects.get(evalset__evalset_id="five")
    for attempt in run.attempts.select_related("session"):
        session = attempt.session
        assert attempt.realm == session.realm
        assert attempt.realm.startswith(f"eval/{run.pk}/")
        assert [event.author for event in session.events.order_by("seq")] == ["user", "keeper"]
        assert session.traces.count() == 1
        keys = StateChange.objects.filter(scope="session", owner_id=session.pk)
        assert list(keys.values_list("key", "session_id")) == [("last", session.pk)]
        user = UserState.objects.get(owner__realm=attempt.realm)
        assert StateChange.objects.filter(scope="user", owner_id=user.owner_id, session=session).count() == 1
    delete_run(run.pk)
    assert set(AgentSession.objects.values_list("realm", flat=True)) == set(
        EvalAttempt.objects.values_list("realm", flat=True)
    )


def test_judgements_on_attempts_come_with_the_merged_run(store, shard_files, tmp_path):
    files = [Path(shutil.copy(file, tmp_path)) for file in shard_files]
    with closing(sqlite3.connect(files[0])) as shard, shard:
        shard.execute(
            "INSERT INTO sessions_app_eventjudgement (session_id, seq, verdict, note, person, judged_at)"
            " SELECT min(id), 2, 'bad', 'It rains.', 'bob', 1.0 FROM sessions_app_agentsession"
        )
    merge(*files)
    judgement = EventJudgement.objects.get()
    assert judgement.session.realm.startswith("eval/")
    assert (judgement.seq, judgement.verdict, judgement.note, judgement.person) == (
        2,
        "bad",
        "It rains.",
        "bob",
    )


def test_nested_sessions_of_attempts_come_with_the_merged_run(store, tmp_path):
    folder, file = tmp_path / "agents" / "caller", tmp_path / "shard.sqlite3"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(shard_stores.CALLER)
    write(folder, "one.evalset.json", evalset(case("a", turn("go", "done"))))
    metric = ("--metrics=response_match_score", "--shard=1/1")
    shard_stores.command(file, "run_evals", folder, "one", *metric)
    merge(file)
    attempt = EvalAttempt.objects.get()
    outer, inner = NestedRun.objects.order_by("pk")
    assert [(run.agent, run.outer_id) for run in (outer, inner)] == [
        ("outer", attempt.session_id),
        ("inner", attempt.session_id),
    ]
    assert (outer.caller_id, inner.caller_id) == (attempt.session_id, outer.child_id)
    assert (outer.caller_seq, inner.caller_seq, inner.outer_seq) == (2, 2, 2)
    assert outer.child.realm == f"nested/{attempt.session_id}/{outer.child.session_id}"
    assert [event.author for event in inner.child.events.order_by("seq")] == ["user", "inner"]
    assert outer.child.events.count() == outer.child.last_seq == 4
    delete_run(attempt.run_id)
    assert not AgentSession.objects.exists()


def test_merge_ignores_order_of_stores_and_is_idempotent(store, shard_files):
    code, _ = merge(*shard_files)
    ids = set(EvalRun.objects.values_list("pk", flat=True))
    counts = [model.objects.count() for model in (EvalAttempt, AgentSession, Event, StateChange)]
    assert merge(*reversed(shard_files))[0] == code
    assert set(EvalRun.objects.values_list("pk", flat=True)) == ids
    assert [model.objects.count() for model in (EvalAttempt, AgentSession, Event, StateChange)] == counts


def test_previous_run_of_another_store_is_the_baseline(store, shard_files, main_file):
    code, out = merge(*shard_files, main_file, "--baseline=previous", "--fail-on=regression")
    assert (code, "Earlier runs copied: 3" in out) == (0, True), out
    assert out.count(": 5 unchanged") == 1
    whole = EvalRun.objects.filter(evalset__evalset_id="five").earliest("created_at")
    assert whole.attempts.filter(session__isnull=False).count() == 10


def test_evalset_without_a_baseline_is_refused_or_not_compared(store, shard_files):
    with pytest.raises(CommandError, match="there is no earlier run of the command line or CI"):
        merge(*shard_files, "--baseline=previous", "--fail-on=regression")
    allowed = (*shard_files, "--fail-on=regression", "--allow-no-baseline")
    code, out = merge(*allowed, "--baseline=previous")
    assert (code, "two.evalset.json: no run to compare with" in out) == (0, True)
    assert "has no other run 'abc'" in _error(*allowed, "--baseline=abc")


def test_baseline_of_another_store_does_not_replace_the_one_here(store, main_file, tmp_path):
    marked = Path(shutil.copy(main_file, tmp_path))
    shard_stores.change(marked, "UPDATE evals_app_evalrun SET baseline = 1 WHERE total = 10")
    merge(marked)
    own = EvalRun.objects.get(baseline=True)
    shard_stores.change(marked, "UPDATE evals_app_evalrun SET id = 'another' WHERE id = ?", own.pk)
    shard_stores.change(
        marked, "UPDATE evals_app_evalattempt SET run_id = 'another' WHERE run_id = ?", own.pk
    )
    merge(marked)
    assert EvalRun.objects.get(baseline=True) == own
    assert EvalRun.objects.filter(pk="another").exists()


def test_history_bounds_the_earlier_runs(store, main_file):
    assert "Earlier runs copied: 2" in merge(main_file, "--history=1")[1]
    assert merge(main_file, "--history=1")[1] == ""
    assert "Earlier runs copied: 1" in merge(main_file)[1]
    assert "--history is -1" in _error(main_file, "--history=-1")


def test_runs_that_repeat_a_part_of_another_are_left_behind(store, main_file, tmp_path):
    copy = Path(shutil.copy(main_file, tmp_path))
    shard_stores.change(copy, "UPDATE evals_app_evalrun SET source = 'retry' WHERE total = 10")
    assert "Earlier runs copied: 2" in merge(copy)[1]
    assert not EvalRun.objects.filter(source="retry").exists()


def _error(*arguments):
    with pytest.raises(CommandError) as error:
        merge(*arguments)
    return str(error.value)


def test_without_shards_there_is_nothing_to_judge(store, main_file):
    assert "Leave out --baseline, --junit" in _error(main_file, "--baseline=previous", "--junit=j.xml")


def test_stopped_shard_makes_a_stopped_run(store, copies):
    shard_stores.change(
        copies[1], "UPDATE evals_app_evalrun SET status = 'stopped', stopped_because = 'Limit of seconds.'"
    )
    code, _ = merge(*copies, "--fail-on=regression", "--allow-no-baseline")
    run = EvalRun.objects.get(evalset__evalset_id="five")
    assert (code, run.status, run.stopped_because) == (1, "stopped", "Limit of seconds.")


@pytest.mark.parametrize(
    ("column", "value", "fact"),
    [
        ("code_version", "other", "code"),
        ("git_revision", "abc+", "commit"),
        ("config", '{"criteria": {}}', "configuration"),
        ("agent_models", '{"keeper": "other"}', "models"),
        ("adk_version", "0.1", "google-adk"),
        ("num_runs", 7, "repetitions"),
        ("case_ids", '["a"]', "chosen cases"),
        ("policy", '{"tools": "recorded"}', "replay"),
        ("prices", '{"currency": "X"}', "prices"),
    ],
)
def test_shards_of_different_runs_are_refused(store, copies, column, value, fact):
    shard_stores.change(copies[2], f"UPDATE evals_app_evalrun SET {column} = ?", value)
    assert f"Shards 1/3 and 3/3 of keeper/five differ in {fact}." in refusal(*copies)


def test_shards_of_different_evalsets_are_refused(store, copies):
    shard_stores.change(copies[1], "UPDATE evals_app_evalsetversion SET digest = 'x' || digest")
    assert "Shards 1/3 and 2/3 of keeper/five differ in evalset." in refusal(*copies)


def test_missing_and_repeated_shards_are_refused(store, copies, shard_files):
    assert "No store has shard 2/3." in refusal(copies[0], copies[2])
    assert "No store has shard 2/3, 3/3." in refusal(copies[0])
    error_text = refusal(*copies, shard_files[1])
    assert "Shard 2/3 of keeper/five is there more than once" in error_text
    assert str(shard_files[1]) in error_text
    shard_stores.change(copies[1], "DELETE FROM evals_app_metricresult")
    shard_stores.change(copies[1], "DELETE FROM evals_app_evalattempt WHERE case_id = 'b'")
    assert "keeper/five: 1 cases are in none of the shards, or in several: b." in refusal(*copies)
    shard_stores.change(copies[0], "UPDATE evals_app_evalrun SET shard = '1/4'")
    assert "These are shards of 3 and of 4." in refusal(*copies)


def test_shards_that_could_not_run_or_still_run_are_refused(store, copies):
    shard_stores.change(copies[0], "UPDATE evals_app_evalrun SET status = 'crashed', error = 'Killed.'")
    assert "crashed. Killed." in refusal(*copies)
    shard_stores.change(copies[0], "UPDATE evals_app_evalrun SET status = 'running'")
    assert "Shard 1/3 of keeper/five in" in refusal(*copies)


def test_shard_without_cases_has_an_empty_store(store, copies):
    for file in copies:
        evalset = "(SELECT id FROM evals_app_evalset WHERE evalset_id = 'five')"
        five = f"(SELECT id FROM evals_app_evalrun WHERE evalset_id = {evalset})"
        for sql in (
            "DELETE FROM evals_app_metricresult",
            f"DELETE FROM evals_app_evalattempt WHERE run_id IN {five}",
            f"DELETE FROM evals_app_evalrun WHERE id IN {five}",
        ):
            shard_stores.change(file, sql)
    assert "No store has shard 2/3." in refusal(copies[0], copies[2])
    assert merge(*copies)[0] == 0
    assert EvalRun.objects.get().passed == 4


def test_shard_without_cases_runs_nothing(store):
    code, out = run_evals(EXAMPLE_AGENTS / "weather", "lookups", "--shard=8/8")
    assert (code, out) == (0, "Shard 8/8 has none of the cases: there are fewer than shards.\n")
    assert not EvalRun.objects.exists()


def test_files_that_are_no_stores_are_refused(store, copies, tmp_path):
    (tmp_path / "text").write_text("no database")
    assert "cannot be read as an SQLite database" in refusal(tmp_path / "text")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (tmp_path / "nothing", tmp_path, loop, tmp_path / ("x" * 300)):
        assert "There is no store" in refusal(path)
    shard_stores.change(tmp_path / "other", "CREATE TABLE t (a)")
    assert "is no store of DevUI" in refusal(tmp_path / "other")
    shard_stores.change(copies[0], "DELETE FROM django_migrations WHERE app = 'evals_app'")
    error_text = refusal(*copies)
    assert "was written by another version of DevUI" in error_text
    assert "devui migrate" in error_text
    if connection.vendor == "sqlite":
        assert "is the store to merge into" in refusal(connection.settings_dict["NAME"])


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE evals_app_evalrun DROP COLUMN note",
        "UPDATE evals_app_evalrun SET created_at = 'yesterday'",
        "UPDATE evals_app_evalsetversion SET content = '{'",
        "UPDATE evals_app_evalattempt SET earlier = '[{}]'",
        "DELETE FROM evals_app_evalset",
        "DROP TABLE evals_app_metricresult",
        "UPDATE evals_app_evalrun SET prices = '{', shard = ''",
    ],
)
def test_damaged_stores_are_refused(store, copies, sql):
    shard_stores.change(copies[0], sql)
    message = refusal(*copies)
    assert str(copies[0]) in message
    assert "has rows that DevUI did not write" in message


def test_interrupted_merge_leaves_nothing(store, shard_files, monkeypatch):
    copied = []

    def fail_at_the_third(*arguments):
        copied.append(arguments)
        if len(copied) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    real = realm_copy.copy_realm
    monkeypatch.setattr(realm_copy, "copy_realm", fail_at_the_third)
    assert merge(*shard_files)[0] == 130
    assert not EvalRun.objects.exists()
    assert not AgentSession.objects.exists()
    monkeypatch.undo()
    assert merge(*shard_files)[0] == 1


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1/0", "a/b", "1", "-1/3", "1/3/5", "1/9999", "٢/٣"])
def test_shard_that_is_none_is_refused(store, shard):
    assert "is no shard" in usage_error(EXAMPLE_AGENTS / "weather", "lookups", f"--shard={shard}")


def test_shard_is_judged_by_the_merge_only(store):
    weather = EXAMPLE_AGENTS / "weather"
    assert "Give them to merge_evals." in usage_error(weather, "lookups", "--shard=1/2", "--fail-on=any")
    assert "Give them to merge_evals." in usage_error(
        weather, "lookups", "--shard=1/2", "--baseline=previous"
    )
    assert "--shard cannot be given" in usage_error(weather, "--resume=last", "--shard=1/2")
    code, _ = run_evals(weather, "one_fails_on_purpose", "--shard=2/2")
    run = EvalRun.objects.get()
    assert (code, run.failed, run.total, run.shard) == (0, 1, 1, "2/2")


def test_run_that_is_repeated_has_the_same_shard(store):
    from evals_app.runs import rerun

    run_evals(EXAMPLE_AGENTS / "weather", "lookups", "--shard=2/4")
    run = EvalRun.objects.select_related("version", "evalset").get()
    again = rerun.repeat(run)
    assert (again.shard, again.total) == ("2/4", run.total)


def test_every_table_of_a_session_is_copied_or_made_anew():
    made_anew = {
        "SessionProblem",
        "SessionTrait",
        "SessionUsage",
        "DeletedSession",
        "ImportedSession",
        "MirroredSession",
        "EvalAttempt",
        "AgentSession",
    }
    copied_with_its_session = {"NestedRun"}
    started_by_persons = {"Run", "PlaygroundRun"}  # of this store; an attempt brings none
    copied = {table.__name__ for table in realm_copy.SESSION_TABLES} | {"SessionState", "StateChange"}
    related = {relation.related_model.__name__ for relation in AgentSession._meta.related_objects}
    assert related == copied | made_anew | started_by_persons | copied_with_its_session
