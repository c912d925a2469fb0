"""deploy/ci: its scripts against a fake forge, its YAML, and the commands of "In CI" in docs/evals.md."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests import forked_processes
from tests.evals import shard_stores
from tests.evals.builders import case, evalset, turn, write
from tests.examples.fake_forge import (
    HALF,
    HALF_JSON,
    HALF_ZIP,
    JOB_TOKEN,
    NEVER,
    TOKEN,
    FakeForge,
    Fault,
    serve,
)
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy/ci"
WEATHER = ROOT / "examples/agents/weather"
MARKER = "<!-- devui-evals -->\n"


@pytest.fixture
def forge():
    """A forge that is served."""
    forge = FakeForge()
    with serve(forge):
        yield forge


def github(forge, **more):
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": forge.address,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_BASE_REF": "main",
        "DEVUI_PULL_REQUEST": "12",
        "DEVUI_DEFAULT_BRANCH": "main",
        **more,
    }


def gitlab(forge, **more):
    return {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": forge.address,
        "CI_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "12",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_DEFAULT_BRANCH": "main",
        "GITLAB_TOKEN": TOKEN,
        **more,
    }


FORGES = pytest.mark.parametrize("settings", [github, gitlab], ids=["GitHub", "GitLab"])


def script(folder, name, *arguments, code=0, **environment):
    """Run a script as a job does; return what it prints. The token is never printed."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not re.match("DJANGO|DEVUI|DATABASE|GIT|CI", name) and "proxy" not in name.lower()
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*program(name), *arguments],
        cwd=folder,
        env={**inherited, "PATH": path, "DEVUI_FORGE_SECONDS": "20", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert TOKEN not in printed
    assert JOB_TOKEN not in printed
    return printed


def program(name):
    return ["sh", CI / name] if name.endswith(".sh") else [sys.executable, CI / name]


def comment(folder, text, code=0, **environment):
    (folder / "summary.md").write_text(text)
    return script(folder, "forges.py", "comment", "summary.md", code=code, **environment)


@FORGES
def test_comment_is_created_first_and_then_updated(tmp_path, forge, settings):
    forge.add_comment("Looks good!", {"login": "person", "id": 3})
    comment(tmp_path, "### Evals failed", **settings(forge))
    comment(tmp_path, "### Evals passed é", **settings(forge))
    assert [item["body"] for item in forge.comments] == ["Looks good!", f"{MARKER}### Evals passed é"]


@FORGES
def test_own_comment_is_found_on_a_later_page_and_by_its_name(tmp_path, forge, settings):
    for number in range(150):
        forge.add_comment(f"comment {number}")
    comment(tmp_path, "first", **settings(forge))
    comment(tmp_path, "nightly", **settings(forge, DEVUI_NAME="nightly"))
    comment(tmp_path, "second", **settings(forge))
    assert [item["body"] for item in forge.comments[150:]] == [f"{MARKER}second", "<!-- nightly -->\nnightly"]


@FORGES
def test_comment_of_another_person_with_the_marker_is_not_touched(tmp_path, forge, settings):
    forge.add_comment(f"{MARKER}mine", {"login": "person", "id": 3})
    forge.add_comment(f"> {MARKER}quoted")
    comment(tmp_path, "ours", **settings(forge))
    assert [item["body"] for item in forge.comments] == [
        f"{MARKER}mine",
        f"> {MARKER}quoted",
        f"{MARKER}ours",
    ]


@FORGES
def test_refused_comment_names_the_reason(tmp_path, forge, settings):
    forge.is_read_only = True
    printed = comment(tmp_path, "text", code=1, **settings(forge))
    assert printed.startswith("No comment was written: POST ")
    assert "HTTP status 403. The token may not do this" in printed
    assert "Pull requests of forks" in printed
    assert printed.count("\n") == 1


def test_long_or_damaged_summary_and_deleted_accounts_are_no_obstacle(tmp_path, forge):
    forge.add_comment(f"{MARKER}of a deleted account", None)
    (tmp_path / "summary.md").write_bytes("é".encode()[:1] + b"x" * 100_000)
    script(tmp_path, "forges.py", "comment", "summary.md", **github(forge))
    assert len(forge.comments[1]["body"]) < 65_536


def test_missing_setting_and_wrong_arguments_are_refused(tmp_path, forge):
    assert "GITHUB_TOKEN is not set." in comment(tmp_path, "x", code=1, **github(forge, GITHUB_TOKEN=""))
    assert "GITLAB_TOKEN is not set." in comment(tmp_path, "x", code=1, **gitlab(forge, GITLAB_TOKEN=""))
    assert "forges.py baseline FILE" in script(tmp_path, "forges.py", "delete", "x", code=2)
    settings = github(forge, GITHUB_API_URL="http://127.0.0.1:9", DEVUI_FORGE_SECONDS="0.1")
    assert "Connection refused" in comment(tmp_path, "x", code=1, **settings)
    settings = github(forge, DEVUI_FORGE_SECONDS="soon")
    assert "DEVUI_FORGE_SECONDS is 'soon'. Set a number of seconds." in comment(
        tmp_path, "x", code=1, **settings
    )


@FORGES
@pytest.mark.parametrize("what", [500, 502, 503, 429, HALF, HALF_JSON])
def test_comment_is_written_once_the_forge_answers(tmp_path, forge, settings, what):
    forge.add_comment(f"{MARKER}old")
    forge.faults = [Fault("GET ", what, times=2)]
    assert comment(tmp_path, "new", **settings(forge)).count("Next try in") == 2
    assert [item["body"] for item in forge.comments] == [f"{MARKER}new"]


@FORGES
def test_comment_whose_response_broke_off_is_not_written_twice(tmp_path, forge, settings):
    forge.faults = [Fault("POST ", HALF, times=1)]
    comment(tmp_path, "text", **settings(forge))
    assert [item["body"] for item in forge.comments] == [f"{MARKER}text"]


@FORGES
def test_wait_that_the_forge_names_is_kept(tmp_path, forge, settings):
    forge.faults = [Fault("GET ", 429, 1, {"Retry-After": "0"})]
    assert "Next try in 0.0 s" in comment(tmp_path, "text", **settings(forge))
    forge.faults = [Fault("GET ", 403, 1, {"Retry-After": "3600"})]
    printed = comment(tmp_path, "text", code=1, **settings(forge))
    assert "HTTP status 403. Tries: 1 in 20 s. Run the job again later." in printed


@FORGES
@pytest.mark.parametrize("what", [NEVER, 503, HALF_JSON])
def test_forge_that_stays_broken_is_reported_in_one_line_after_some_seconds(tmp_path, forge, settings, what):
    forge.faults = [Fault("GET ", what)]
    settings = settings(forge, DEVUI_FORGE_SECONDS="0.4")
    printed = script(tmp_path, "forges.py", "baseline", "main.sqlite3", code=1, **settings)
    line, *tries = printed.splitlines()
    assert line.startswith("The baseline could not be fetched: ")
    assert line.endswith("in 0.4 s. Run the job again later.")
    assert all("Next try in" in line for line in tries)
    assert not (tmp_path / "main.sqlite3").exists()


def baseline(folder, code=0, **environment):
    script(folder, "forges.py", "baseline", "main.sqlite3", code=code, **environment)
    file = folder / "main.sqlite3"
    content = file.read_bytes() if file.exists() else None
    file.unlink(missing_ok=True)
    return content


@FORGES
def test_newest_run_of_the_base_branch_that_stored_results_is_the_baseline(tmp_path, forge, settings):
    assert baseline(tmp_path, **settings(forge)) is None
    forge.add_store(b"older")
    forge.add_store(b"newest, red", is_green=False)
    forge.add_store(None, is_green=False)
    forge.add_store(b"another branch", branch="feature")
    assert baseline(tmp_path, **settings(forge)) == b"newest, red"
    forge.add_store(b"newest, green")
    assert baseline(tmp_path, **settings(forge)) == b"newest, green"


@FORGES
def test_baseline_is_that_of_the_pull_requests_base_branch(tmp_path, forge, settings):
    forge.add_store(b"of main")
    forge.add_store(b"of release")
    base = {"GITHUB_BASE_REF": "release/1", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "release/1"}
    assert baseline(tmp_path, **settings(forge, **base)) == b"of release", "the default branch, at first"
    forge.add_store(b"of release/1", branch="release/1")
    forge.add_store(b"newest of main")
    assert baseline(tmp_path, **settings(forge, **base)) == b"of release/1"


@FORGES
def test_baseline_of_a_push_is_that_of_its_branch(tmp_path, forge, settings):
    base = {"GITHUB_BASE_REF": "", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": ""}
    own = {**base, "GITHUB_REF_NAME": "release", "CI_COMMIT_BRANCH": "release"}
    forge.add_store(b"of release", branch="release")
    forge.add_store(b"of main")
    assert baseline(tmp_path, **settings(forge, **own)) == b"of release"
    tag = {**base, "GITHUB_REF_NAME": "release", "GITHUB_REF_TYPE": "tag"}
    assert baseline(tmp_path, **settings(forge, **tag)) == b"of main"


def test_artifacts_of_forks_and_of_others_are_no_baseline(tmp_path, forge):
    forge.add_artifact(b"newest of main", created_at="2027-01-03")
    forge.add_artifact(b"a fork with a branch main", fork=99, created_at="2027-01-05")
    forge.add_artifact(b"of a deleted run", workflow_run=None, created_at="2027-01-05")
    forge.add_artifact(b"another name", name="x", created_at="2027-01-05")
    for _ in range(150):
        forge.add_artifact(b"another branch", branch="feature", created_at="2027-01-06")
    assert baseline(tmp_path, **github(forge)) == b"newest of main"
    assert forge.download_headers
    assert not {"Authorization", "Private-Token"} & forge.download_headers.keys(), (
        "the token stays with the forge"
    )


@FORGES
def test_baseline_that_has_expired_is_not_a_missing_one(tmp_path, forge, settings):
    forge.add_store(b"expired", is_expired=True)
    printed = script(tmp_path, "forges.py", "baseline", "main.sqlite3", code=1, **settings(forge))
    assert "The store of the branch main has expired. Run the evals of this branch again." in printed


def test_baseline_that_was_deleted_meanwhile_is_not_a_missing_one(tmp_path, forge):
    forge.add_store(b"deleted")
    forge.faults = [Fault("/zip", 410)]
    printed = script(tmp_path, "forges.py", "baseline", "main.sqlite3", code=1, **github(forge))
    assert "/actions/artifacts/1/zip: HTTP status 410." in printed


@FORGES
@pytest.mark.parametrize("what", [500, HALF, HALF_ZIP])
def test_download_that_breaks_off_is_repeated(tmp_path, forge, settings, what):
    forge.add_store(bytes(range(256)) * 100)
    if (settings, what) != (gitlab, HALF_ZIP):  # GitLab sends the store without an archive
        forge.faults = [Fault("/blobs/", what, times=2), Fault("/artifacts/devui-evals", what, times=2)]
    assert baseline(tmp_path, **settings(forge)) == bytes(range(256)) * 100


@FORGES
def test_token_that_sees_nothing_is_not_a_missing_baseline(tmp_path, forge, settings):
    forge.is_hidden = True
    printed = script(tmp_path, "forges.py", "baseline", "main.sqlite3", code=1, **settings(forge))
    assert "HTTP status 404. The token may not do this" in printed


def gitlab_fork(forge, **more):
    """Return the environment of a merge request's pipeline that runs in a fork: without secrets."""
    ids = {"CI_PROJECT_ID": "99", "CI_MERGE_REQUEST_PROJECT_ID": "5"}
    return gitlab(forge, **ids, GITLAB_TOKEN="", CI_JOB_TOKEN=JOB_TOKEN, **more)


def test_fork_of_a_public_project_on_gitlab_gets_the_baseline_and_writes_no_comment(tmp_path, forge):
    forge.is_public = True
    forge.add_store(b"of main", is_green=False)
    assert baseline(tmp_path, **gitlab_fork(forge)) == b"of main"
    printed = comment(tmp_path, "text", code=1, **gitlab_fork(forge))
    assert printed == "No comment was written: GITLAB_TOKEN is not set. Pipelines of forks do not get it.\n"
    forge.stores.clear()
    printed = script(tmp_path, "forges.py", "baseline", "m", code=1, **gitlab_fork(forge))
    assert "The token of the job reads no store of the branch main. Set GITLAB_TOKEN." in printed


def test_fork_of_a_private_project_on_gitlab_is_told_what_is_missing(tmp_path, forge):
    forge.add_store(b"of main")
    printed = script(tmp_path, "forges.py", "baseline", "m", code=1, **gitlab_fork(forge))
    assert "/projects/5/pipelines: HTTP status 401." in printed
    assert "Set GITLAB_TOKEN." in printed


STUB = r"""#!/bin/sh
echo "$DATABASE_URL $*" >>calls.txt
[ "$1" = merge_evals ] || exit 0
touch "${DATABASE_URL#sqlite:///}"
[ "$STATUS" = crash ] && echo Traceback && exit 1
[ "$STATUS" = signal ] && trap 'STATUS=143' TERM && touch started && while [ "$STATUS" = signal ]; do sleep 0.05; done
[ "$STATUS" -eq 2 ] && printf 'CommandError: <b>\r@everyone\n' && exit 2
while [ "$1" != --markdown ]; do shift; done
echo "### Evals" >"$2"
exit "$STATUS"
"""


@pytest.fixture
def stub(tmp_path):
    """The path with a command `devui` that notes its calls, and writes what `merge_evals` writes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "devui").write_text(STUB)
    (folder / "devui").chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


def read_calls(folder):
    return (folder / "calls.txt").read_text().splitlines()


@FORGES
@pytest.mark.parametrize("status", ["0", "1", "3"])
def test_shards_are_merged_with_the_store_of_the_base_branch(tmp_path, forge, stub, settings, status):
    forge.add_store(b"main")
    script(tmp_path, "run_shard.sh", PATH=stub, DEVUI_SHARD="2/3", DEVUI_EVALS="a * --num-runs 2")
    (tmp_path / "devui-evals/shard-2-3.sqlite3").touch()
    environment = settings(forge, PATH=stub, STATUS=status, DEVUI_FAIL_ON="any")
    script(tmp_path, "merge_shards.sh", code=int(status), **environment)
    run, migrate, merge = read_calls(tmp_path)
    assert run == "sqlite:///devui-evals/shard-2-3.sqlite3 run_evals a * --num-runs 2 --shard 2/3"
    assert migrate == "sqlite:///devui-evals/baseline.sqlite3 migrate --verbosity 0"
    assert merge.startswith(
        "sqlite:///devui-evals/merging.sqlite3 merge_evals devui-evals/shard-2-3.sqlite3 --earlier"
        " devui-evals/baseline.sqlite3 --baseline previous --allow-no-baseline --fail-on any --markdown"
    )
    assert (tmp_path / "devui-evals/merged.sqlite3").exists()
    assert [comment["body"] for comment in forge.comments] == [f"{MARKER}### Evals\n"]


@FORGES
def test_first_run_of_a_branch_has_no_baseline_yet(tmp_path, forge, stub, settings):
    printed = script(tmp_path, "merge_shards.sh", **settings(forge, PATH=stub, STATUS="0"))
    assert "No baseline yet: no run of the branch main has stored its results." in printed
    [merge] = read_calls(tmp_path)
    assert "--earlier" not in merge
    assert "--not-compared" not in merge


@FORGES
@pytest.mark.parametrize("what", [404, 500, HALF_JSON, NEVER])
def test_baseline_that_cannot_be_fetched_stops_no_merge(tmp_path, forge, stub, settings, what):
    forge.add_comment(f"{MARKER}### Evals passed")
    forge.add_store(b"main")
    forge.faults = [Fault("artifacts?name", what), Fault("pipelines?", what)]
    settings = settings(forge, PATH=stub, STATUS="3", DEVUI_FORGE_SECONDS="1")
    script(tmp_path, "merge_shards.sh", code=3, **settings)
    [merge] = read_calls(tmp_path)
    assert "--not-compared The baseline could not be fetched: " in merge
    assert [comment["body"] for comment in forge.comments] == [f"{MARKER}### Evals\n"], "no longer green"


def test_merge_repeats_suspicious_cases_if_requested(tmp_path, stub):
    environment = {"PATH": stub, "STATUS": "0", "DEVUI_CONFIRM": "5", "DEVUI_AGENTS": "my agents"}
    script(tmp_path, "merge_shards.sh", **environment)
    assert "--confirm 5 --agents my agents --baseline" in read_calls(tmp_path)[0]


@FORGES
def test_stores_that_cannot_be_merged_leave_a_comment_and_no_baseline(tmp_path, forge, stub, settings):
    forge.add_comment(f"{MARKER}### Evals passed")
    script(tmp_path, "merge_shards.sh", code=2, **settings(forge, PATH=stub, STATUS="2"))
    assert not (tmp_path / "devui-evals/merged.sqlite3").exists(), "no empty store becomes the baseline"
    [comment] = forge.comments
    assert comment["body"] == f"{MARKER}### Evals could not be merged\n\n    CommandError: <b> @everyone\n"


def test_merge_that_crashes_leaves_a_comment_and_is_no_regression(tmp_path, forge, stub):
    script(tmp_path, "merge_shards.sh", code=2, **github(forge, PATH=stub, STATUS="crash"))
    assert not (tmp_path / "devui-evals/merged.sqlite3").exists()
    assert [comment["body"] for comment in forge.comments] == [
        f"{MARKER}### Evals could not be merged\n\n    Traceback\n"
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_cancelled_merge_passes_the_signal_on_and_writes_the_summary(tmp_path, forge, stub, number):
    environment = {**os.environ, **github(forge, PATH=stub, STATUS="signal")}
    with subprocess.Popen(program("merge_shards.sh"), cwd=tmp_path, env=environment) as job:
        while not (tmp_path / "started").exists():
            assert job.poll() is None
            time.sleep(0.05)
        job.send_signal(number)
        assert job.wait(PATIENCE_S) == 143
    assert [comment["body"] for comment in forge.comments] == [f"{MARKER}### Evals\n"]


def test_comment_that_is_refused_decides_nothing(tmp_path, forge, stub):
    forge.is_read_only = True
    step_summary = tmp_path / "step.md"
    environment = github(forge, PATH=stub, STATUS="0", GITHUB_STEP_SUMMARY=str(step_summary))
    assert "No comment was written: POST" in script(tmp_path, "merge_shards.sh", **environment)
    assert step_summary.read_text() == "### Evals\n"


@pytest.mark.parametrize("status", ["0", "1"])
def test_fork_without_secrets_is_merged_and_judged_without_a_comment(tmp_path, forge, stub, status):
    forge.is_public = True
    forge.add_store(b"main")
    environment = gitlab_fork(forge, PATH=stub, STATUS=status)
    printed = script(tmp_path, "merge_shards.sh", code=int(status), **environment)
    assert "--earlier" in read_calls(tmp_path)[1]
    assert "No comment was written: GITLAB_TOKEN is not set. Pipelines of forks do not get it." in printed


def test_build_of_no_pull_request_writes_no_comment(tmp_path, forge, stub):
    script(tmp_path, "merge_shards.sh", **github(forge, PATH=stub, STATUS="0", DEVUI_PULL_REQUEST=""))
    script(tmp_path, "merge_shards.sh", PATH=stub, STATUS="0")
    assert forge.comments == []
    assert [request for request in forge.requests if "comments" in request] == []


@pytest.mark.parametrize(
    ("name", "lock"), [("merge_shards.sh", "merge.lock"), ("run_shard.sh", "shard-1-1.sqlite3.lock")]
)
def test_second_job_in_one_folder_is_refused_while_the_first_runs(tmp_path, stub, name, lock):
    lock_path = tmp_path / "devui-evals" / lock
    lock_path.parent.mkdir()
    environment = {"PATH": stub, "STATUS": "0", "DEVUI_EVALS": "a b"}
    with lock_path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        printed = script(tmp_path, name, code=2, **environment)
        assert printed == (
            f"Another job uses devui-evals/{lock}: set DEVUI_FOLDER to another folder, or wait until it has ended.\n"
        )
        script(tmp_path, name, **environment, DEVUI_FOLDER="other")
    script(tmp_path, name, **environment)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A folder with the store of a shard, of an earlier run, and of a run of another evalset; and their agent."""
    folder = tmp_path_factory.mktemp("stores")
    agent = folder / "keeper"
    agent.mkdir()
    (agent / "agent.py").write_text(shard_stores.AGENT)
    write(agent, "one.evalset.json", evalset(case("a", turn("a", "a"))))
    write(agent, "other.evalset.json", evalset(case("a", turn("a", "a"))))
    judged = ("--metrics=response_match_score", "--criteria=response_match_score=1")
    for name, arguments in {"main": ["one"], "other": ["other"], "shard": ["one", "--shard=1/1"]}.items():
        shard_stores.command(folder / f"{name}.sqlite3", "run_evals", agent, *arguments, *judged)
    return folder


def make_broken_store(stores, folder, kind):
    """Return the content of a store that cannot be used as a baseline."""
    file = Path(
        shutil.copy(stores / ("other.sqlite3" if kind == "of another evalset" else "main.sqlite3"), folder)
    )
    if kind == "of a newer version":
        shard_stores.change(
            file,
            "INSERT INTO django_migrations (app, name, applied) VALUES ('evals_app', '9999_next', '2999-01-01')",
        )
    if kind == "of another app":
        shard_stores.change(file, "UPDATE evals_app_evalset SET app_name = 'stranger'")
        shard_stores.change(file, "UPDATE evals_app_evalrun SET app_name = 'stranger'")
    content = file.read_bytes()
    return {"truncated": content[: len(content) // 2], "empty": b""}.get(kind, content)


def merge_for_real(stores, folder, code, **environment):
    """Run merge_shards.sh with the real command; return the summary."""
    (folder / "devui-evals").mkdir()
    shutil.copy(stores / "shard.sqlite3", folder / "devui-evals/shard-1-1.sqlite3")
    printed = script(folder, "merge_shards.sh", code=code, **environment)
    assert "Traceback" not in printed
    return (folder / "devui-evals/summary.md").read_text(), printed


@pytest.mark.parametrize(
    ("settings", "kind", "reason"),
    [
        (github, "truncated", "baseline.sqlite3"),
        pytest.param(
            gitlab, "empty", "has no earlier run of keeper/one (it has no runs).", marks=pytest.mark.soak
        ),
        pytest.param(
            github, "of a newer version", "was written by a newer version of DevUI.", marks=pytest.mark.soak
        ),
        (gitlab, "of another evalset", "has no earlier run of keeper/one (it has runs of keeper/other)."),
        pytest.param(
            github,
            "of another app",
            "has no earlier run of keeper/one (it has runs of stranger/one).",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_baseline_that_cannot_be_used_is_named_and_nothing_is_lost(
    tmp_path, forge, stores, settings, kind, reason
):
    forge.add_comment(f"{MARKER}### Evals passed")
    forge.add_store(make_broken_store(stores, tmp_path, kind))
    summary, printed = merge_for_real(stores, tmp_path, 3, **settings(forge))
    assert reason in " ".join(printed.split())
    assert summary.startswith("### Evals not compared\n\n⚠️ `keeper` `one`: 1 of 1 attempts passed.")
    assert reason in summary
    assert [comment["body"] for comment in forge.comments] == [MARKER + summary]
    assert (tmp_path / "devui-evals/merged.sqlite3").exists(), "the next baseline"
    assert (tmp_path / "devui-evals/junit.xml").exists()


@pytest.mark.soak
def test_forge_that_fails_makes_the_result_not_compared(tmp_path, forge, stores):
    forge.add_store((stores / "main.sqlite3").read_bytes())
    forge.faults = [Fault("artifacts?name", 503)]
    summary, _ = merge_for_real(stores, tmp_path, 3, **github(forge, DEVUI_FORGE_SECONDS="1"))
    assert summary.startswith("### Evals not compared\n\n⚠️ ")
    assert "HTTP status 503" in summary
    assert "Run the job again later." in summary


@FORGES
def test_short_failure_of_the_forge_changes_nothing(tmp_path, forge, stores, settings):
    forge.add_store((stores / "main.sqlite3").read_bytes())
    forge.faults = [Fault("GET ", 503, times=2)]
    summary, printed = merge_for_real(stores, tmp_path, 0, **settings(forge))
    assert "Earlier runs copied: 1" in printed
    assert summary.startswith("### Evals passed\n\n✅ `keeper` `one`: 1 of 1 attempts passed.")


@pytest.mark.soak
def test_broken_shard_leaves_a_summary_and_exit_2(tmp_path, forge, stores):
    forge.add_store((stores / "main.sqlite3").read_bytes())
    whole = (stores / "shard.sqlite3").read_bytes()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "shard.sqlite3").write_bytes(whole[: len(whole) // 2])
    summary, _ = merge_for_real(broken, tmp_path, 2, **github(forge))
    assert summary.startswith("### Evals could not be merged\n\n    CommandError: ")
    assert "shard-1-1.sqlite3" in summary


@pytest.mark.soak
def test_pull_request_is_judged_against_the_store_of_main(tmp_path, forge):
    evals = {"DEVUI_EVALS": f"{WEATHER} lookups:one_city,no_station"}
    main, branch = tmp_path / "main", tmp_path / "branch"
    main.mkdir()
    branch.mkdir()

    on_main = github(forge, DEVUI_PULL_REQUEST="", GITHUB_BASE_REF="", GITHUB_REF_NAME="main")
    script(main, "run_shard.sh", DEVUI_SHARD="1/1", **evals)
    printed = script(main, "merge_shards.sh", **on_main)
    assert printed.count("no run to compare with") == 1
    assert forge.comments == []
    forge.add_store((main / "devui-evals/merged.sqlite3").read_bytes())

    for index in ("1", "2"):
        script(branch, "run_shard.sh", CI_NODE_INDEX=index, CI_NODE_TOTAL="2", **evals)
    step_summary = branch / "step.md"
    printed = script(branch, "merge_shards.sh", **github(forge, GITHUB_STEP_SUMMARY=str(step_summary)))
    assert "Earlier runs copied: 1" in printed
    assert "2 unchanged" in printed
    [comment] = forge.comments
    assert comment["body"].startswith(
        f"{MARKER}### Evals passed\n\n✅ `weather` `lookups`: 2 of 2 attempts passed."
    )
    assert step_summary.read_text() == comment["body"].removeprefix(MARKER)
    assert {"junit.xml", "report.html", "merged.sqlite3"} <= {
        file.name for file in branch.glob("devui-evals/*")
    }

    (branch / "devui-evals/shard-2-2.sqlite3").unlink()
    printed = script(branch, "merge_shards.sh", code=2, **github(forge))
    assert "No store has shard 2/2." in printed
    [updated] = forge.comments
    assert updated["body"].startswith(f"{MARKER}### Evals could not be merged\n\n    ")
    assert "    CommandError: No store has shard 2/2." in updated["body"]
    assert not (branch / "devui-evals/merged.sqlite3").exists(), "no empty store becomes the baseline"


def put_pip(folder):
    """Return the path with a `python3` that writes the arguments of pip instead of installing."""
    (folder / "bin").mkdir()
    (folder / "bin/python3").write_text('#!/bin/sh\nshift 2\nprintf "%s\\n" "$@" >pip.txt\n')
    (folder / "bin/python3").chmod(0o755)
    return os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])


def install(folder, code=0, **environment):
    """Run a copy of install.sh in a folder with some wheels; return what it prints and pip's arguments."""
    shutil.copy(CI / "install.sh", folder)
    printed = subprocess.run(
        ["sh", "install.sh"], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert printed.returncode == code, printed.stderr
    arguments = folder / "pip.txt"
    return printed.stderr, arguments.read_text().split() if arguments.exists() else []


def test_installation_takes_the_wheel_beside_the_script_and_the_packages_of_agents(tmp_path):
    path = put_pip(tmp_path)
    printed, arguments = install(tmp_path, 2, PATH=path)
    assert printed == (
        "DevUI is not on PyPI: put its wheel (make dist) into ., or set DEVUI_INSTALL to the path or URL of one.\n"
    )
    assert arguments == []
    url = "https://example.com/devui-1-py3-none-any.whl#sha256=00"
    options = ["install", "--quiet", "--disable-pip-version-check"]
    assert install(tmp_path, PATH=path, DEVUI_INSTALL=url)[1] == [*options, url]
    (tmp_path / "devui-1-py3-none-any.whl").touch()
    wheel = "./devui-1-py3-none-any.whl"
    assert install(tmp_path, PATH=path)[1] == [*options, wheel]
    assert install(tmp_path, PATH=path, DEVUI_INSTALL="-r *.txt")[1] == [*options, wheel, "-r", "*.txt"]
    (tmp_path / "devui-2-py3-none-any.whl").touch()
    assert "has 2 wheels of DevUI: ./devui-1-py3-none-any.whl" in install(tmp_path, 2, PATH=path)[0]


@pytest.mark.soak
def test_installation_reports_what_pip_refuses(tmp_path):
    script(tmp_path, "install.sh", DEVUI_INSTALL="--no-index pip")
    assert "No matching distribution" in script(
        tmp_path, "install.sh", DEVUI_INSTALL="--no-index not-there", code=1
    )


def test_shard_without_evals_says_what_is_missing(tmp_path):
    assert "names the agent and its evalsets" in script(tmp_path, "run_shard.sh", code=2)


def steps(document):
    return document["runs"]["steps"]


def test_action_only_calls_scripts_and_sets_what_they_read():
    action = yaml.safe_load((CI / "action.yml").read_text())
    calls = [step["run"] for step in steps(action) if "run" in step]
    names = ("install", "run_shard", "merge_shards")
    assert calls == [f'exec "$GITHUB_ACTION_PATH/{name}.sh"' for name in names]
    assert action["inputs"]["install"]["default"] == "", "no package of this name on PyPI is DevUI"
    assert all(os.access(CI / name, os.X_OK) for name in ("install.sh", "run_shard.sh", "merge_shards.sh"))
    assert {step["uses"].split("@")[0] for step in steps(action) if "uses" in step} == {
        "actions/upload-artifact",
        "actions/download-artifact",
    }
    text = (CI / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == action["inputs"].keys()
    read = set(re.findall(r"DEVUI_\w+", "".join(file.read_text() for file in CI.glob("*.sh")))) | set(
        re.findall(r"DEVUI_\w+", (CI / "forges.py").read_text())
    )
    assert read - set(re.findall(r"DEVUI_\w+", text)) == {
        "DEVUI_FOLDER",
        "DEVUI_FORGE_SECONDS",
        "DEVUI_LOCK",
    }


def test_example_workflow_uses_inputs_of_the_action():
    inputs = yaml.safe_load((CI / "action.yml").read_text())["inputs"]
    workflow = yaml.safe_load((CI / "github-workflow.yml").read_text())
    used = [
        step for job in workflow["jobs"].values() for step in job["steps"] if step["uses"].startswith("./")
    ]
    assert len(used) == 2
    for step in used:
        assert step.get("with", {}).keys() <= inputs.keys()
    assert workflow["jobs"]["merge"]["needs"] == "shard"
    for job in workflow["jobs"].values():
        assert job["env"] == {"GOOGLE_API_KEY": "${{ secrets.GOOGLE_API_KEY }}"}


def test_every_branch_that_is_pushed_to_stores_its_baseline():
    action = yaml.safe_load((CI / "action.yml").read_text())
    [keep] = [step for step in steps(action) if step["name"] == "Keep the store of the branch as baseline"]
    assert keep["with"]["name"] == "${{ inputs.name }}-baseline"
    assert "always()" in keep["if"], "green or red"
    assert "!github.event.pull_request && github.ref_type == 'branch'" in keep["if"]
    template = yaml.safe_load((CI / "gitlab.yml").read_text())
    assert template["devui-evals-merge"]["artifacts"]["when"] == "always"
    assert {'$CI_COMMIT_BRANCH && $CI_COMMIT_REF_PROTECTED == "true"'} <= {
        rule["if"] for rule in template["devui-evals-merge"]["rules"]
    }


def test_gitlab_template_calls_scripts_that_exist():
    template = yaml.safe_load((CI / "gitlab.yml").read_text())
    calls = [line for job in template.values() for line in job.get("script", ())]
    assert len(calls) == 4
    for call in calls:
        assert (CI / call.removeprefix("sh ci/devui/")).is_file()
    assert "devui-evals-merge" in template, "forges.py asks for its artifact by this name"


PAGE = (ROOT / "docs/evals.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## In CI\n")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^```sh\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)


def run_documented(line, folder):
    """Run a command of the page in a folder; return what it prints."""
    words = shlex.split(line.replace("examples/agents", str(WEATHER.parent)), comments=True)
    assigned = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    assert words[len(assigned)] == "devui"
    done = forked_processes.run(
        [sys.executable, str(ROOT / "manage.py"), *words[len(assigned) + 1 :]],
        cwd=folder,
        env={**os.environ, "DEVUI_DATA_DIR": str(folder), **assigned},
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return str(done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_commands_of_the_page_work_in_empty_folders(tmp_path, number):
    printed = [
        run_documented(line, tmp_path) for line in COMMANDS[number].splitlines() if not line.startswith("#")
    ]
    assert f"{7 * (3 if '--num-runs 3' in COMMANDS[number] else 1)} of" in printed[-1]
    if "--baseline" in COMMANDS[number]:
        assert "7 unchanged" in printed[-1]
        assert (tmp_path / "summary.md").read_text().startswith("### Evals passed")


def test_page_names_files_that_exist():
    names = set(re.findall(r"`(deploy/[\w./-]+)`", SECTION)) | set(
        re.findall(r"\]\(\.\./(deploy/[\w./-]+)\)", SECTION)
    )
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []
