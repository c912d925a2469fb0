"""`merge_evals`: stores of earlier runs that cannot be used, `--confirm`, and merges at the same time."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError

from evals_app.models import EvalRun
from evals_app.runs.merging import merge_stores
from sessions_app.store.models import AgentSession
from tests import forked_processes
from tests.evals import shard_stores
from tests.evals.builders import case, evalset, turn, write
from tests.evals.shard_stores import merge
from tests.sessions.concurrency import run_together

GATE = ("--baseline=previous", "--fail-on=regression", "--allow-no-baseline")
JUDGED = ("--metrics=response_match_score", "--criteria=response_match_score=1")
WAITS = """
import asyncio, os
run = Keeper._run_async_impl
async def wait_first(self, ctx):
    await asyncio.sleep(float(os.environ.get("KEEPER_WAITS", "0")))
    async for event in run(self, ctx):
        yield event
Keeper._run_async_impl = wait_first
"""
"""Code that lets the agent wait if an environment variable says so."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an agent, and stores: six earlier runs, and a shard that ran after case a was broken."""
    folder = tmp_path_factory.mktemp("merged")
    agent = folder / "agents" / "keeper"
    agent.mkdir(parents=True)
    code = shard_stores.AGENT + WAITS
    (agent / "agent.py").write_text(code)
    write(agent, "two.evalset.json", evalset(*(case(name, turn(name, name)) for name in ("a", "b"))))
    shard_stores.command(folder / "main.sqlite3", "run_evals", agent, *["two"] * 6, *JUDGED)
    shard_stores.command(folder / "same.sqlite3", "run_evals", agent, "two", "--shard=1/1", *JUDGED)
    (agent / "agent.py").write_text(code.replace("ANSWERS = {}", "ANSWERS = {'a': 'x'}"))
    shard_stores.command(folder / "broken.sqlite3", "run_evals", agent, "two", "--shard=1/1", *JUDGED)
    return folder


@pytest.fixture
def main_file(folder, tmp_path):
    """A copy of the store of earlier runs, to change."""
    return Path(shutil.copy(folder / "main.sqlite3", tmp_path))


def refusal(*arguments):
    """Return the message with which the command refuses these arguments."""
    with pytest.raises(CommandError) as error:
        merge(*arguments)
    assert error.value.returncode == 2
    return str(error.value)


def test_earlier_runs_are_copied_and_compared_with(store, folder, main_file):
    code, out = merge(folder / "same.sqlite3", "--earlier", main_file, *GATE)
    assert (code, "Earlier runs copied: 6" in out) == (0, True), out
    assert "2 unchanged" in out


def spoil(file, kind):
    """Make a store unusable."""
    if kind == "deleted":
        file.unlink()
    elif kind == "truncated":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif kind == "damaged in the middle":
        content = bytearray(file.read_bytes())
        content[8192:-8192] = b"x" * (len(content) - 16384)
        file.write_bytes(content)
    elif kind == "text":
        file.write_text("no database")
    elif kind == "of another program":
        file.unlink()
        shard_stores.change(file, "CREATE TABLE t (a)")
    else:
        for sql in kind.split(";"):
            shard_stores.change(file, sql)


NEWER = "INSERT INTO django_migrations (app, name, applied) VALUES ('evals_app', '9999_next', '2999-01-01')"
OLDER = "DELETE FROM django_migrations WHERE app = 'evals_app'"
OTHER_EVALSET = "UPDATE evals_app_evalset SET evalset_id = 'three'"
OTHER_APP = "UPDATE evals_app_evalset SET app_name = 'x';UPDATE evals_app_evalrun SET app_name = 'x'"
LATER = "UPDATE evals_app_evalrun SET created_at = created_at + 1000000"
NO_RUNS = "DELETE FROM evals_app_metricresult;DELETE FROM evals_app_evalattempt;DELETE FROM evals_app_evalrun"
LAST_RUN = "(SELECT id FROM evals_app_evalrun ORDER BY created_at LIMIT 1)"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("deleted", "There is no store"),
        ("truncated", "main.sqlite3"),
        ("damaged in the middle", "main.sqlite3"),
        ("text", "cannot be read as an SQLite database"),
        ("of another program", "is no store of DevUI"),
        (NEWER, "was written by a newer version of DevUI. Update DevUI."),
        (OLDER, "was written by another version of DevUI. Bring it up to date"),
        (OTHER_EVALSET, "has no earlier run of keeper/two (it has runs of keeper/three)."),
        (OTHER_APP, "has no earlier run of keeper/two (it has runs of x/two)."),
        (LATER, "has no earlier run of keeper/two (it has runs of keeper/two)."),
        (NO_RUNS, "has no earlier run of keeper/two (it has no runs)."),
        ("ALTER TABLE evals_app_evalrun DROP COLUMN note", "has rows that DevUI did not write"),
        ("UPDATE evals_app_evalrun SET prices = '{'", "has rows that DevUI did not write"),
        ("UPDATE evals_app_evalsetversion SET content = '{}'", "has rows that DevUI did not write"),
        ("UPDATE evals_app_evalrun SET created_at = 'yesterday'", "has rows that DevUI did not write"),
        (
            f"UPDATE evals_app_evalattempt SET earlier = '[{{}}]' WHERE run_id = {LAST_RUN}",
            "Run the evals of its",
        ),
    ],
)
def test_unusable_store_of_earlier_runs_is_named_and_the_shards_are_merged(
    store, folder, main_file, tmp_path, kind, reason
):
    spoil(main_file, kind)
    files = {name: tmp_path / name for name in ("markdown", "junit", "html")}
    file_options = [f"--{name}={path}" for name, path in files.items()]
    code, out = merge(folder / "same.sqlite3", "--earlier", main_file, *GATE, *file_options)
    assert code == 3, out
    [line] = [line for line in out.splitlines() if line.split()[:2] == ["not", "compared"]]
    assert reason in line
    run = EvalRun.objects.get()
    assert (run.status, run.passed, run.total) == ("done", 2, 2)
    assert AgentSession.objects.count() == 2, "nothing of the other store is left"
    assert files["markdown"].read_text().startswith("### Evals not compared\n\n⚠️ ")
    assert "compared with earlier runs" in files["junit"].read_text()
    assert files["junit"].exists()
    assert files["html"].exists()


def test_unusable_store_is_no_missing_baseline(store, folder, tmp_path):
    junit = tmp_path / "junit.xml"
    repeated = ("--confirm=2", "--agents", folder / "agents")
    unusable = ("--earlier", tmp_path / "none", *GATE[:2], f"--junit={junit}")
    code, out = merge(folder / "broken.sqlite3", *unusable, *repeated)
    assert (code, "There is no store" in out, junit.exists()) == (3, True, True), out


def test_reason_without_a_store_is_reported(store, folder, tmp_path):
    markdown = tmp_path / "summary.md"
    arguments = (*GATE, f"--markdown={markdown}", "--not-compared=GET /x: HTTP status 503. @all")
    code, out = merge(folder / "same.sqlite3", *arguments)
    assert (code, "not compared GET /x: HTTP status 503. @all" in " ".join(out.split())) == (3, True)
    summary = markdown.read_text()
    assert summary.startswith("### Evals not compared\n\n⚠️ ")
    assert "\n- `GET /x: HTTP status 503. @all`\n" in summary


def test_failed_attempts_count_also_without_a_comparison(store, folder, tmp_path):
    markdown = tmp_path / "summary.md"
    arguments = ("--fail-on=any", "--not-compared=No answer.", f"--markdown={markdown}")
    assert merge(folder / "broken.sqlite3", *arguments)[0] == 1
    summary = markdown.read_text()
    assert summary.startswith("### Evals failed\n\n❌ ")
    assert "\n- No answer.\n" in summary


def test_new_evalset_beside_known_ones_is_no_reason(store, folder, main_file, tmp_path):
    new = tmp_path / "new.sqlite3"
    agent = folder / "agents" / "keeper"
    write(agent, "new.evalset.json", evalset(case("a", turn("b", "b"))))
    shard_stores.command(new, "run_evals", agent, "two", "new", "--shard=1/1", *JUDGED)
    code, out = merge(new, "--earlier", main_file, *GATE)
    assert (code, "new.evalset.json: no run to compare with" in out) == (0, True), out


def test_merges_at_the_same_time_make_one_run(store, folder):
    merges = run_together([lambda: merge_stores([folder / "same.sqlite3"], 20)] * 3)
    assert len({merge.runs[0].pk for merge in merges}) == 1
    assert EvalRun.objects.count() == 1
    assert AgentSession.objects.count() == 2


def confirm(folder, target, *arguments, code, store="broken.sqlite3", **environment):
    """Run the command with `--confirm`; return what it prints."""
    return shard_stores.command(
        target,
        *("merge_evals", folder / store, "--earlier", folder / "main.sqlite3", *GATE),
        *("--confirm=5", *arguments),
        code=code,
        **environment,
    )


@pytest.mark.parametrize("agents", ["agents", "agents/keeper"])
def test_suspicious_case_is_repeated_after_the_merge(folder, tmp_path, agents):
    target = tmp_path / "target.sqlite3"
    printed = confirm(folder, target, f"--agents={folder / agents}", code=1)
    assert "a: worse than the baseline, repeated 5 times to confirm" in printed
    assert "fails a: 0 of 5 fresh repetitions passed, 5 of 5 attempts of 5 runs before" in printed
    with closing(sqlite3.connect(target)) as connection:
        sql = "SELECT repeats_id, case_ids, total, failed FROM evals_app_evalrun WHERE source = 'confirm'"
        [(repeats, case_ids, *counts)] = connection.execute(sql)
        assert (json.loads(case_ids), *counts) == (["a"], 5, 5)
        assert repeats


def test_confirmation_is_copied_with_its_run_and_is_no_earlier_run(folder, tmp_path, store):
    target = tmp_path / "target.sqlite3"
    confirm(folder, target, f"--agents={folder / 'agents'}", code=1)
    code, out = merge(folder / "same.sqlite3", "--earlier", target, "--history=1")
    assert (code, "Earlier runs copied: 2" in out) == (0, True)
    confirmation = EvalRun.objects.get(source="confirm")
    assert confirmation.repeats.attempts.count() == 2


def test_nothing_is_repeated_if_nothing_fell(folder, tmp_path):
    agent = tmp_path / "keeper"
    shutil.copytree(folder / "agents" / "keeper", agent)
    (agent / "agent.py").write_text(shard_stores.AGENT + WAITS)
    printed = confirm(folder, tmp_path / "t.sqlite3", f"--agents={agent}", code=0, store="same.sqlite3")
    assert "repeated" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--confirm=5"], "--confirm needs the agent.\nName its folder with --agents DIR."),
        (["--confirm=0", "--agents=x"], "must be 1 to 100, not 0"),
        (["--confirm=5", "--agents=missing"], "does not exist"),
        (["--confirm=5", "--agents={folder}/strangers"], "is not the folder of an agent"),
        (["--confirm=5", "--agents={folder}/strangers/other"], "is the folder of 'other', not of 'keeper'"),
        (["--confirm=5", "--agents={folder}/agents"], "--confirm needs the checkout of the shards."),
    ],
)
def test_confirmation_without_the_agent_of_the_shards_is_refused(store, folder, arguments, message):
    (folder / "strangers" / "other").mkdir(parents=True, exist_ok=True)
    (folder / "strangers" / "other" / "agent.py").touch()
    arguments = [argument.format(folder=folder) for argument in arguments]
    assert message in refusal(folder / "same.sqlite3", *GATE, *arguments)


def test_confirmation_without_a_gate_is_refused(store, folder):
    assert "--confirm needs a baseline" in refusal(folder / "same.sqlite3", "--confirm=5", "--agents=x")


def test_interrupted_confirmation_writes_the_results(folder, tmp_path):
    markdown, target = tmp_path / "summary.md", tmp_path / "target.sqlite3"
    command = [
        sys.executable,
        "manage.py",
        "merge_evals",
        str(folder / "broken.sqlite3"),
        *GATE,
        "--confirm=5",
    ]
    files = [
        f"--earlier={folder / 'main.sqlite3'}",
        f"--agents={folder / 'agents'}",
        f"--markdown={markdown}",
    ]
    process = forked_processes.Popen(
        [*command, *files],
        cwd=shard_stores.ROOT,
        env={**forked_processes.os.environ, "DATABASE_URL": f"sqlite:///{target}", "KEEPER_WAITS": "600"},
        stdout=forked_processes.subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if "two.evalset.json: 1 case × 5" in line:  # the child has begun
            process.terminate()
            break
    out, _ = process.communicate(timeout=forked_processes.PATIENCE_S)
    assert process.returncode == 143, out
    assert "markdown: " in out
    summary = markdown.read_text()
    assert summary.startswith("### Evals not compared\n\n⚠️ `keeper` `two`: 1 of 2")
    assert "\n- The repetitions of suspicious cases were interrupted.\n" in summary
