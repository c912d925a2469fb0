"""Instructions that agents have had: grouped by their declaration, with use, pass rate, difference and variant."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest
from django.urls import reverse

from evals_app.analysis import instruction_history
from evals_app.analysis.instruction_history import read_instruction_history
from evals_app.models import EvalAttempt
from evals_app.variants.variant import Variant
from sessions_app.agents import cards
from sessions_app.store.errors import NotFound
from sessions_app.store.models import ModelCall
from sessions_app.traces.instruction_sources import is_filled_from, join_templates
from tests.evals import stored_runs
from tests.evals.recorded_instructions import record, session
from tests.evals.stored_runs import failing, passing
from tests.pages.html import parse

pytestmark = pytest.mark.django_db

IDENTITY = '\n\nYou are an agent. Your internal name is "counter".'
NOW = "Count in {language}.\nBe exact."


def declare(instruction: str, **fields) -> None:
    cards.save_loaded("counter", "1", {"name": "counter", "instruction": instruction, **fields})


def versions(agent: str = "counter"):
    return read_instruction_history("counter").versions[agent]


def test_texts_with_other_values_are_one_version_of_the_declared_instruction():
    declare(NOW)
    first, second = session("a"), session("b")
    record(first, f"Count in English.\nBe exact.{IDENTITY}", 5.0)
    record(second, f"Count in Greek.\nBe exact.{IDENTITY} The description about you is new.", 9.0)
    record(second, "Count.", 3.0)
    declared, earlier = versions()
    assert (declared.text, declared.is_declared, len(declared.texts)) == (NOW, True, 2)
    assert (declared.calls, len(declared.sessions), declared.tokens) == (2, 2, 20)
    assert (declared.first_at, declared.last_at) == (5.0, 9.0)
    assert (earlier.text, earlier.is_declared, earlier.calls) == ("Count.", False, 1)


def test_instruction_that_only_begins_like_the_declared_one_is_another():
    declare("Be exact.")
    record(session("a"), f"Be exact. Answer in Greek.{IDENTITY}")
    [version] = versions()
    assert (version.text, version.is_declared) == ("Be exact. Answer in Greek.", False)


def test_instruction_of_a_variant_has_its_name_and_placeholders():
    declare(NOW)
    run = stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": [passing()]})
    variant = Variant("short", "", {"counter": {"instruction": "In {language}: count."}})
    run.variant, run.variant_hash = variant.as_json(), variant.hash
    run.save()
    record(session("a"), f"In Latin: count.{IDENTITY}")
    [version] = versions()
    assert (version.text, version.variants) == ("In {language}: count.", ["short"])
    assert version.patch == variant.patch


def test_instruction_of_a_variant_is_not_a_value_of_the_declared_one():
    declare("Count for {name}")
    run = stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": [passing()]})
    variant = Variant("exact", "", {"counter": {"instruction": "Count for {name}. Be exact."}})
    run.variant, run.variant_hash = variant.as_json(), variant.hash
    run.save()
    record(session("a"), f"Count for Ann. Be exact.{IDENTITY}")
    record(session("b"), f"Count for Ann{IDENTITY}")
    assert {(version.text, version.is_declared) for version in versions()} == {
        ("Count for {name}. Be exact.", False),
        ("Count for {name}", True),
    }


def test_global_and_static_instructions_are_recognised():
    declare("Look here.", global_instruction="For {org}.", static_instruction="Be {static}.")
    record(session("a"), f"For us.\n\nBe {{static}}.{IDENTITY}")
    [version] = versions()
    assert (version.text, version.field_name, version.is_declared) == (
        "Be {static}.",
        "static_instruction",
        True,
    )


def test_pass_rate_is_that_of_the_attempts_whose_sessions_used_it():
    declare(NOW)
    run = stored_runs.run(
        stored_runs.version(stored_runs.cases("a")), {"a": [passing(), failing(), passing()]}
    )
    for number, attempt in enumerate(EvalAttempt.objects.filter(run=run).order_by("repetition")):
        attempt.session = session(str(number))
        attempt.save()
        record(attempt.session, f"Count in English.\nBe exact.{IDENTITY}" if number < 2 else "Count.")
    rates = {version.text: (version.rate.passed, version.rate.total) for version in versions()}
    assert rates == {NOW: (1, 2), "Count.": (1, 1)}


def test_other_apps_and_calls_without_instruction_are_left_out():
    record(session("a", app="other"), "Elsewhere.")
    ModelCall.objects.create(
        session=session("b"),
        ref="x",
        invocation_id="i",
        number=1,
        agent="counter",
        started_at=1.0,
        request="{}",
    )
    assert read_instruction_history("counter").versions == {}


def test_bounds_of_the_guide_are_those_of_the_code():
    guide = " ".join((Path(__file__).parents[2] / "docs/variants.md").read_text(encoding="utf-8").split())
    calls, texts = instruction_history.MAX_CALLS, instruction_history.MAX_TEXTS
    assert f"the newest {calls:,} calls of the app, and of them the newest {texts} texts" in guide


def test_older_calls_and_texts_beyond_the_bounds_are_counted(monkeypatch):
    monkeypatch.setattr(instruction_history, "MAX_TEXTS", 2)
    owner = session("a")
    for number in range(4):
        record(owner, f"Text {number}.", float(number))
    history = read_instruction_history("counter")
    assert [version.text for version in history.versions["counter"]] == ["Text 3.", "Text 2."]
    assert (history.omitted_calls, history.is_cut) == (2, False)
    monkeypatch.setattr(instruction_history, "MAX_CALLS", 3)
    assert read_instruction_history("counter").is_cut


@pytest.mark.parametrize(
    ("text", "declared", "is_filled"),
    [
        ("a b c", {"instruction": "a {x} c"}, True),
        ("a b c d", {"instruction": "a {x} c"}, False),
        ("a  c", {"instruction": "a {x?} c"}, True),
        ("a b", {"instruction": "a {x}"}, True),
        ("g\n\na", {"global_instruction": "g", "instruction": "a"}, True),
        ("a", {"global_instruction": "g", "instruction": "a"}, False),
        ("a {not a key}", {"instruction": "a {not a key}"}, True),
        ("", {}, True),
        ("a", {}, False),
    ],
)
def test_text_is_filled_from_a_declaration_as_a_whole(text, declared, is_filled):
    assert is_filled_from(text, join_templates(declared)) is is_filled


def test_cost_is_that_of_all_its_calls(tmp_path, settings):
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    (tmp_path / "prices.toml").write_text('currency = "EUR"\n[[price]]\nmodel = "m"\ninput = 2\noutput = 2\n')
    owner = session("a")
    for _ in range(2):
        record(owner, "Count.", tokens=500_000)
    [version] = versions()
    assert (version.cost.amount, version.cost.currency) == (2.0, "EUR")


def page(client, query: str = ""):
    return client.get(reverse("agent-instructions", kwargs={"app_name": "counter"}) + query)


def test_page_shows_each_instruction_escaped_and_the_difference_of_two(client):
    declare(NOW)
    owner = session("a")
    record(owner, f"Count in Greek.\nBe exact.{IDENTITY}", 2.0)
    record(owner, "<script>alert(1)</script>", 1.0)
    declared, hostile = versions()
    text = page(client, f"?before={hostile.key}&after={declared.key}").content.decode()
    assert "<script>alert" not in text
    rows = parse(text).one("tbody").all("tr")
    assert ["current" in row.text for row in rows] == [True, False]
    lines = [line.text for line in parse(text).one("ol", "value-diff").all("li")]
    assert any("Count in {language}." in line for line in lines)


def test_unknown_app_and_instruction_are_refused(client):
    assert page(client).status_code == HTTPStatus.NOT_FOUND
    record(session("a"), "Count.")
    response = page(client, "?before=000000000000&after=000000000000")
    assert response.status_code == HTTPStatus.NOT_FOUND
    with pytest.raises(NotFound, match="No recorded call has the instruction"):
        read_instruction_history("counter").find_version("000000000000")


def test_number_of_queries_does_not_grow_with_the_calls(client, django_assert_max_num_queries):
    declare(NOW)
    for number in range(30):
        record(session(str(number)), f"Count {number}.", float(number))
    with django_assert_max_num_queries(8):
        read_instruction_history("counter")
