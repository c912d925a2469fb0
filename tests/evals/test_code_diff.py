"""A comparison of runs shows the difference of the agent's code when the commits of both are in git."""

from __future__ import annotations

import asyncio
import subprocess

import pytest
from django.test import Client

from evals_app.analysis.code_diff import read_code_diff
from evals_app.models import EvalRun
from sessions_app.agents.revisions import diff_commits, git_revision
from tests.evals import stored_runs
from tests.evals.stored_runs import cases, failing, passing
from tests.pages.html import parse

pytestmark = pytest.mark.django_db


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "change")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def commits(folder, settings):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    git(folder.path, "init", "-q")
    first = commit(folder.path, agent__py="root_agent = None\nUNIT = 'C'\n", __env="KEY=old")
    changed_code = "root_agent = None\nUNIT = '<F>'\nMODEL = make(api_key='sk-123456789')\n"
    second = commit(folder.path, agent__py=changed_code, __env="KEY=new")
    return first, second


@pytest.fixture
def two(commits):
    version = stored_runs.version(cases("a"))
    runs = [
        stored_runs.run(version, {"a": [passing()]}, code="v1"),
        stored_runs.run(version, {"a": [failing()]}, code="v2"),
    ]
    for run, revision in zip(runs, commits, strict=True):
        EvalRun.objects.filter(pk=run.pk).update(git_revision=revision)
        run.git_revision = revision
    return runs


def changed(diff):
    return [(line.mark, line.text) for line in diff.lines if line.mark in ("added", "removed")]


def test_changed_lines_are_shown_without_keys(two):
    diff = read_code_diff(*two)
    assert changed(diff)[:2] == [("removed", "UNIT = 'C'"), ("added", "UNIT = '<F>'")]
    assert diff.lines[0].text == "agent.py"
    assert "sk-123456789" not in str(diff.lines)
    assert "KEY" not in str(diff.lines)
    assert not diff.has_uncommitted


def test_uncommitted_changes_are_named(two):
    two[1].git_revision += "+12345678"
    assert read_code_diff(*two).has_uncommitted


def test_change_without_a_commit_is_named_on_the_page(two):
    revision = two[0].git_revision
    EvalRun.objects.filter(pk=two[1].pk).update(git_revision=f"{revision}+12345678")
    page = parse(Client().get(f"/evals/runs/{two[1].pk}/compare/").content)
    assert "without a commit" in page.text
    assert not page.all("details", css="code-diff")


def test_long_difference_is_cut(two, folder):
    two[1].git_revision = commit(
        folder.path, agent__py="\n".join(f"x{number} = 1" for number in range(5_000))
    )
    assert len(read_code_diff(*two).lines) == 401


def test_form_feed_in_code_ends_no_line(two, folder):
    two[1].git_revision = commit(
        folder.path, agent__py="A = 1\n\f# part\nB = 'x\u2028diff --git a/x b/y'\r\n"
    )
    added = [text for mark, text in changed(read_code_diff(*two)) if mark == "added"]
    assert added == ["A = 1", "\f# part", "B = 'x\u2028diff --git a/x b/y'"]


def test_name_of_a_file_is_shown_in_its_script_with_marks_escaped(two, folder):
    two[1].git_revision = commit(folder.path, 東京__py="A = 1\n", **{"evil\u202e<b>__py": "A = 1\n"})
    EvalRun.objects.filter(pk=two[1].pk).update(git_revision=two[1].git_revision)
    page = parse(Client().get(f"/evals/runs/{two[1].pk}/compare/").content)
    names = [item.text for item in page.one("details", css="code-diff").all("li", "skipped")]
    assert "東京.py" in names
    assert "evil\\u202e<b>.py" in names


def test_difference_of_a_long_line_says_that_it_goes_on(two, folder):
    two[1].git_revision = commit(folder.path, agent__py=f"A = '{'x' * 300_000}'\n")
    assert read_code_diff(*two).lines[-1].mark == "skipped"


@pytest.mark.parametrize("revision", ["", "0" * 40, "--output=/tmp/x", "HEAD", "abc"])
def test_unknown_commit_shows_nothing(two, revision):
    two[1].git_revision = revision
    assert read_code_diff(*two) is None


def test_programs_that_a_repository_names_do_not_run(commits, folder, tmp_path):
    mark = tmp_path / "ran"
    (folder.path / ".gitattributes").write_text("*.py diff=evil\n")
    for setting in ("diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor"):
        git(folder.path, "config", setting, f"touch {mark}; true")
    assert "UNIT" in diff_commits(folder.path, *commits)
    assert asyncio.run(git_revision(folder.path)).startswith(f"{commits[-1]}+")
    assert not mark.exists()


def test_missing_objects_are_not_fetched(commits, folder, tmp_path):
    mark, copy = tmp_path / "ran", tmp_path / "copy"
    git(folder.path, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{folder.path}", str(copy))
    git(copy, "config", "remote.origin.uploadpack", f"touch {mark}; git-upload-pack")
    assert diff_commits(copy, *commits) == ""
    assert not mark.exists()


def test_page_of_a_comparison_shows_the_difference(two):
    response = Client().get(f"/evals/runs/{two[1].pk}/compare/")
    page = parse(response.content)
    assert "UNIT = '<F>'" in page.one("details", css="code-diff").text
