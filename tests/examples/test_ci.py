"""deploy/ci: its scripts against a fake forge, its YAML, and the commands of "In CI" in docs/evals.md."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import forked_processes
from tests.examples.fake_forge import TOKEN, FakeForge, serve

ROOT = Path(__file__).parents[2]
CI = ROOT / "deploy/ci"
WEATHER = ROOT / "examples/agents/weather"
MARKER = "<!-- devui-evals -->\n"
PATIENCE_S = 120


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
        "DEVUI_PULL_REQUEST": "12",
        "DEVUI_MAIN_BRANCH": "main",
        **more,
    }


def gitlab(forge, **more):
    return {
        "GITLAB_CI": "true",
        "CI_API_V4_URL": forge.address,
        "CI_PROJECT_ID": "5",
        "CI_MERGE_REQUEST_IID": "12",
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
    command = ["sh", CI / name] if name.endswith(".sh") else [sys.executable, CI / name]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**inherited, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert TOKEN not in printed
    return printed


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
    assert "HTTP status 403. The token may not do this" in printed
    assert "Pull requests of forks" in printed


def test_long_or_damaged_summary_and_deleted_accounts_are_no_obstacle(tmp_path, forge):
    forge.add_comment(f"{MARKER}of a deleted account", None)
    (tmp_path / "summary.md").write_bytes("é".encode()[:1] + b"x" * 100_000)
    script(tmp_path, "forges.py", "comment", "summary.md", **github(forge))
    assert len(forge.comments[1]["body"]) < 65_536


def test_missing_setting_and_wrong_arguments_are_refused(tmp_path, forge):
    assert "GITHUB_TOKEN is not set." in comment(tmp_path, "x", code=1, **github(forge, GITHUB_TOKEN=""))
    assert "GITLAB_TOKEN is not set." in comment(tmp_path, "x", code=1, **gitlab(forge, GITLAB_TOKEN=""))
    assert "forges.py baseline FILE" in script(tmp_path, "forges.py", "delete", "x", code=2)
    assert "Connection refused" in comment(
        tmp_path, "x", code=1, **github(forge, GITHUB_API_URL="http://127.0.0.1:9")
    )


def baseline(folder, code=0, **environment):
    script(folder, "forges.py", "baseline", "main.sqlite3", code=code, **environment)
    file = folder / "main.sqlite3"
    return file.read_bytes() if file.exists() else None


def test_newest_artifact_of_the_main_branch_is_the_baseline(tmp_path, forge):
    assert baseline(tmp_path, **github(forge)) is None
    forge.add_artifact(b"older", created_at="2027-01-01")
    forge.add_artifact(b"newest of main", created_at="2027-01-03")
    forge.add_artifact(b"expired", created_at="2027-01-05", expired=True)
    forge.add_artifact(b"another branch", branch="feature", created_at="2027-01-05")
    forge.add_artifact(b"a fork with a branch main", fork=99, created_at="2027-01-05")
    forge.add_artifact(b"of a deleted run", workflow_run=None, created_at="2027-01-05")
    forge.add_artifact(b"another name", name="x", created_at="2027-01-05")
    assert baseline(tmp_path, **github(forge)) == b"newest of main"
    assert forge.download_headers
    assert not {"Authorization", "Private-Token"} & forge.download_headers.keys(), (
        "the token stays with the forge"
    )


@FORGES
def test_token_that_sees_nothing_is_not_a_missing_baseline(tmp_path, forge, settings):
    forge.is_hidden = True
    printed = script(tmp_path, "forges.py", "baseline", "main.sqlite3", code=1, **settings(forge))
    assert "HTTP status 404. The token may not do this" in printed


def test_file_of_the_main_pipeline_is_the_baseline(tmp_path, forge):
    assert baseline(tmp_path, **gitlab(forge)) is None
    forge.files["main:devui-evals-merge:devui-evals/merged.sqlite3"] = b"of main"
    assert baseline(tmp_path, **gitlab(forge)) == b"of main"
    assert baseline(tmp_path, code=1, **gitlab(forge, GITLAB_TOKEN="wrong")) == b"of main"


STUB = r"""#!/bin/sh
echo "$DATABASE_URL $*" >>calls.txt
[ "$1" = merge_evals ] || exit 0
touch "${DATABASE_URL#sqlite:///}"
[ "$STATUS" -eq 3 ] && echo Traceback && exit 1
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


@FORGES
@pytest.mark.parametrize("status", ["0", "1"])
def test_shards_are_merged_with_the_store_of_main(tmp_path, forge, stub, settings, status):
    forge.add_artifact(b"main")
    forge.files["main:devui-evals-merge:devui-evals/merged.sqlite3"] = b"main"
    script(tmp_path, "run_shard.sh", PATH=stub, DEVUI_SHARD="2/3", DEVUI_EVALS="a * --num-runs 2")
    (tmp_path / "devui-evals/shard-2-3.sqlite3").touch()
    environment = settings(forge, PATH=stub, STATUS=status, DEVUI_FAIL_ON="any")
    script(tmp_path, "merge_shards.sh", code=int(status), **environment)
    run, migrate, merge = (tmp_path / "calls.txt").read_text().splitlines()
    assert run == "sqlite:///devui-evals/shard-2-3.sqlite3 run_evals a * --num-runs 2 --shard 2/3"
    assert migrate == "sqlite:///devui-evals/baseline.sqlite3 migrate --verbosity 0"
    assert merge.startswith(
        "sqlite:///devui-evals/merging.sqlite3 merge_evals devui-evals/shard-2-3.sqlite3"
        " devui-evals/baseline.sqlite3 --baseline previous --allow-no-baseline --fail-on any --markdown"
    )
    assert (tmp_path / "devui-evals/merged.sqlite3").exists()
    assert [comment["body"] for comment in forge.comments] == [f"{MARKER}### Evals\n"]


def test_stores_that_cannot_be_merged_leave_a_comment_and_no_baseline(tmp_path, forge, stub):
    script(tmp_path, "merge_shards.sh", code=2, **github(forge, PATH=stub, STATUS="2"))
    assert not (tmp_path / "devui-evals/merged.sqlite3").exists(), "no empty store becomes the baseline"
    [written] = forge.comments
    assert written["body"] == f"{MARKER}### Evals could not be merged\n\n    CommandError: <b> @everyone\n"


def test_merge_that_crashes_leaves_a_comment_and_no_baseline(tmp_path, forge, stub):
    script(tmp_path, "merge_shards.sh", code=1, **github(forge, PATH=stub, STATUS="3"))
    assert not (tmp_path / "devui-evals/merged.sqlite3").exists()
    assert [comment["body"] for comment in forge.comments] == [
        f"{MARKER}### Evals could not be merged\n\n    Traceback\n"
    ]


def test_comment_that_is_refused_decides_nothing(tmp_path, forge, stub):
    forge.is_read_only = True
    step_summary = tmp_path / "step.md"
    environment = github(forge, PATH=stub, STATUS="0", GITHUB_STEP_SUMMARY=str(step_summary))
    assert "HTTP status 403" in script(tmp_path, "merge_shards.sh", **environment)
    assert step_summary.read_text() == "### Evals\n"


def test_build_of_no_pull_request_writes_no_comment(tmp_path, forge, stub):
    script(tmp_path, "merge_shards.sh", **github(forge, PATH=stub, STATUS="0", DEVUI_PULL_REQUEST=""))
    script(tmp_path, "merge_shards.sh", PATH=stub, STATUS="0")
    assert forge.comments == []
    assert [request for request in forge.requests if "comments" in request] == []


@pytest.mark.soak
def test_pull_request_is_judged_against_the_store_of_main(tmp_path, forge):
    evals = {"DEVUI_EVALS": f"{WEATHER} lookups:one_city,no_station"}
    main, branch = tmp_path / "main", tmp_path / "branch"
    main.mkdir()
    branch.mkdir()

    on_main = github(forge, DEVUI_PULL_REQUEST="")
    script(main, "run_shard.sh", DEVUI_SHARD="1/1", **evals)
    printed = script(main, "merge_shards.sh", **on_main)
    assert printed.count("no run to compare with") == 1
    assert forge.comments == []
    forge.add_artifact((main / "devui-evals/merged.sqlite3").read_bytes())

    for index in ("1", "2"):
        script(branch, "run_shard.sh", CI_NODE_INDEX=index, CI_NODE_TOTAL="2", **evals)
    step_summary = branch / "step.md"
    printed = script(branch, "merge_shards.sh", **github(forge, GITHUB_STEP_SUMMARY=str(step_summary)))
    assert "Earlier runs copied: 1" in printed
    assert "2 unchanged" in printed
    [written] = forge.comments
    assert written["body"].startswith(
        f"{MARKER}### Evals passed\n\n✅ `weather` `lookups`: 2 of 2 attempts passed."
    )
    assert step_summary.read_text() == written["body"].removeprefix(MARKER)
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


def test_unreachable_baseline_fails_the_job(tmp_path, forge):
    printed = script(tmp_path, "merge_shards.sh", code=2, **gitlab(forge, GITLAB_TOKEN="wrong"))
    assert "baseline: GET /projects/5/jobs/artifacts/main" in printed
    assert "merged" not in {file.stem for file in tmp_path.rglob("*")}


@pytest.mark.soak
def test_installation_passes_the_arguments_of_pip(tmp_path):
    script(tmp_path, "install.sh", DEVUI_INSTALL="--no-index pip")
    assert "No matching distribution" in script(
        tmp_path, "install.sh", DEVUI_INSTALL="--no-index not-there", code=1
    )
    assert "names the agent and its evalsets" in script(tmp_path, "run_shard.sh", code=2)


def steps(document):
    return document["runs"]["steps"]


def test_action_only_calls_scripts_and_sets_what_they_read():
    action = yaml.safe_load((CI / "action.yml").read_text())
    calls = [step["run"] for step in steps(action) if "run" in step]
    assert calls == [f'"$GITHUB_ACTION_PATH/{name}.sh"' for name in ("install", "run_shard", "merge_shards")]
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
    assert read - set(re.findall(r"DEVUI_\w+", text)) == {"DEVUI_FOLDER"}


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
