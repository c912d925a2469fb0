"""Evalset files beside agents, mirrored into rows as they change."""

from __future__ import annotations

import json
import os

import pytest

from evals_app.files import BadFile, library
from evals_app.metrics import config
from evals_app.models import EvalSet
from evals_app.runs import run_orders
from evals_app.runs.run_orders import RunOrder
from sessions_app.store.errors import BadInput, NotFound
from tests.evals.builders import case, evalset, turn, write

pytestmark = pytest.mark.django_db

GOOD = evalset(case("a", turn("x", "y")), case("b-2", turn("x"), turn("z")))


def row(name="smoke"):
    return EvalSet.objects.get(app_name="counter", evalset_id=name)


def test_files_of_every_format_are_listed_by_id(folder):
    names = [
        "smoke-test.evalset.json",
        "plan.evalset.yaml",
        "more.evalset.yml",
        "old.test.json",
        "test_config.json",
    ]
    for name in [*names, "notes.json", "smoke-test.evalset.yaml"]:
        write(folder.path, name, GOOD)
    assert list(library.find_files(folder.path)) == [
        "more",
        "old.test",
        "plan",
        "smoke-test",
        "smoke-test.yaml",
    ]


def test_changed_file_appears_and_old_version_remains(folder):
    path = write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    before = row()
    assert [case["id"] for case in library.case_summaries(before)] == ["a", "b-2"]
    assert (before.path, before.case_count) == ("counter/smoke.evalset.json", 2)
    write(folder.path, "smoke.evalset.json", evalset(case("only", turn("x"))))
    os.utime(path, (1, 1))
    library.refresh(folder, "counter")
    assert row().case_count == 1
    assert row().versions.count() == 2
    assert library.current_version(row()).digest != before.digest


def test_a_file_that_did_not_change_is_not_read_again(folder, monkeypatch):
    write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    monkeypatch.setattr(library, "read_text", lambda *_: pytest.fail("read again"))
    library.refresh(folder, "counter")


def test_broken_file_is_reported_until_fixed(folder):
    write(folder.path, "smoke.evalset.json", "{")
    library.refresh(folder, "counter")
    (problem,) = library.file_problems(row())
    assert (problem.file, problem.line) == ("counter/smoke.evalset.json", 1)
    with pytest.raises(BadFile):
        library.check_usable(row())
    write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    assert library.file_problems(row()) == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("link", "is a link to 'missing', where there is no file"),
        ("pipe", "cannot be read: It is not a regular"),
    ],
)
def test_link_to_nothing_and_pipe_are_listed_with_their_problem(folder, kind, reason):
    path = folder.path / "smoke.evalset.json"
    path.symlink_to("missing") if kind == "link" else os.mkfifo(path)
    library.refresh(folder, "counter")
    (problem,) = library.file_problems(row())
    assert (problem.file, row().gone) == ("counter/smoke.evalset.json", False)
    assert problem.what.startswith(reason)
    with pytest.raises(BadFile, match=r"smoke\.evalset\.json"):
        library.register_file(folder, "counter", path)
    path.unlink()
    library.refresh(folder, "counter")
    assert row().gone


def test_removed_file_can_return(folder):
    path = write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    path.unlink()
    library.refresh(folder, "counter")
    assert row().gone
    with pytest.raises(NotFound, match="no longer exists"):
        library.check_usable(row())
    write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    assert not row().gone


def test_file_outside_the_folder_has_its_own_id(folder, tmp_path_factory):
    write(folder.path, "smoke.evalset.json", GOOD)
    library.refresh(folder, "counter")
    far = write(tmp_path_factory.mktemp("far"), "smoke.evalset.json", GOOD)
    elsewhere = library.register_file(folder, "counter", far)
    assert elsewhere.evalset_id.startswith("smoke~")
    assert elsewhere.path == str(far)
    library.refresh(folder, "counter")
    assert not EvalSet.objects.filter(gone=True).exists()


def test_order_is_validated_as_a_whole(folder):
    evalset = library.register_file(folder, "counter", write(folder.path, "smoke.evalset.json", GOOD))
    default = config.default_config()
    with pytest.raises(NotFound, match="no case 'zzz'"):
        run_orders.order_run(evalset, RunOrder(default, case_ids=["zzz"]))
    with pytest.raises(BadInput, match="more than 20,000 attempts"):
        run_orders.order_run(evalset, RunOrder(default, num_runs=20_000))
    run = run_orders.order_run(evalset, RunOrder(default, case_ids=["b-2"], num_runs=2))
    assert [
        (attempt.case_id, attempt.case_index, attempt.repetition) for attempt in run.attempts.order_by("pk")
    ] == [
        ("b-2", 1, 1),
        ("b-2", 1, 2),
    ]


def test_an_evalset_without_cases_cannot_be_run(folder):
    evalset_row = library.register_file(folder, "counter", write(folder.path, "none.evalset.json", evalset()))
    with pytest.raises(BadInput, match="has no cases"):
        run_orders.order_run(evalset_row, RunOrder(config.default_config()))


def test_undecodable_file_name_is_reported_and_hides_no_other(folder):
    write(folder.path, "good.evalset.json", evalset(case("a", turn("hi"))))
    with open(os.fsencode(folder.path) + b"/\xff.evalset.json", "w") as file:
        file.write(json.dumps(evalset(case("a", turn("hi")))))
    library.refresh(folder, "counter")
    library.refresh(folder, "counter")
    rows = {row.evalset_id: row for row in EvalSet.objects.filter(gone=False)}
    assert sorted(rows) == ["good", "\ufffd"]
    assert not library.file_problems(rows["good"])
    assert "rename the file" in library.file_problems(rows["\ufffd"])[0].what
