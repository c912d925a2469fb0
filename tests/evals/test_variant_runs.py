"""Runs of variants: `run_evals --variant`, the comparison with the original, and histories without them."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.core.management import CommandError
from django.template.loader import render_to_string

from evals_app.analysis import baselines, trends, variant_matrix
from evals_app.analysis.case_verdicts import Verdict
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import html_page, junit, markdown, run_csv, run_json
from evals_app.analysis.exports.comparison_json import comparison_facts
from evals_app.analysis.run_differences import read_differences
from evals_app.execution.run_execution import execute_run
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import rerun
from evals_app.runs.progress import newest_runs
from evals_app.runs.variant_orders import order_variants
from evals_app.variants.variant import Variant
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Trace
from tests.evals import agents, stored_runs
from tests.evals.builders import case, evalset, turn
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error
from tests.evals.stored_runs import failing, passing
from tests.pages.html import parse

SHOP = EXAMPLE_AGENTS / "shop"
GOLD = "name: gold for all\nnote: A test.\nagents:\n  shop:\n    instruction: 'tier: gold'\n"
NO_LOOKUP = "name: no look-up\nagents: {shop: {tools: {remove: [find_customer]}}}\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two variants of the shop."""
    paths = [tmp_path / "gold.yaml", tmp_path / "no-lookup.yaml"]
    for path, text in zip(paths, (GOLD, NO_LOOKUP), strict=True):
        path.write_text(text)
    return paths


def test_matrix_compares_each_variant_with_the_original(store, files):
    code, out = run_evals(SHOP, "delivery", "--num-runs=5", *(f"--variant={path}" for path in files))
    assert code == 1
    original, gold, no_lookup = EvalRun.objects.order_by("created_at")
    lines = [line.split() for line in out.splitlines()]
    assert "shop/delivery.evalset.json: 4 cases × 5, variant 'gold for all'" in out
    assert ["case", "original", "gold", "for", "all", "no", "look-up"] in lines
    assert ["stranger_is_unknown", "5/5", "5/5", "unchanged", "0/5", "regressed"] in lines
    assert ["stranger_pays", "5/5", "0/5", "regressed", "5/5", "unchanged"] in lines
    assert ["gold_fails_on_purpose", "0/5", "5/5", "fixed", "0/5", "unchanged"] in lines
    assert ["pass", "rate", "75", "%", "50", "%", "25", "%", "worse"] in lines
    assert f"gold for all: 2 regressed, 1 fixed, 1 unchanged (run {gold.pk})" in out
    assert "Tests are adjusted for 2 variants." in out
    assert (original.variant, original.variant_hash, original.variant_of) == ("", "", None)
    assert json.loads(gold.variant) == {
        "name": "gold for all",
        "note": "A test.",
        "agents": {"shop": {"instruction": "tier: gold"}},
    }
    assert (gold.variant_of, no_lookup.variant_of) == (original, original)
    assert gold.variant_hash == Variant.from_json(gold.variant).hash != no_lookup.variant_hash
    assert gold.code_version == original.code_version


def test_exit_code_and_gate_are_those_of_the_original(store, files):
    argument = "delivery:stranger_pays,standard_member_pays"
    assert run_evals(SHOP, argument, "--num-runs=5", f"--variant={files[0]}")[0] == 0
    gate = ("--baseline=previous", "--fail-on=regression")
    code, out = run_evals(SHOP, argument, "--num-runs=5", f"--variant={files[0]}", *gate)
    first = EvalRun.objects.order_by("created_at").first()
    assert code == 0
    assert f"against run {first.pk}: 2 unchanged" in out
    assert "gold for all: 2 regressed" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: v\nagents: {shopp: {model: x}}", "there is no agent 'shopp'.\nAgents of shop: shop."),
        ("name: v\nagents: {shop: {instuction: x}}", "LlmAgent has no field 'instuction'.\nFields of shop"),
        ("name: v\nagents: {shop: {tools: {remove: [x]}}}", "has no tool 'x'.\nIts tools: find_customer."),
        ("name: v\nagents: {shop: {model: none-1}}", "there is no class for the model 'none-1'"),
        ("name: v\nagents: {}", "agents: is empty"),
    ],
)
def test_variant_that_does_not_fit_is_refused_before_anything_runs(store, tmp_path, files, text, message):
    path = tmp_path / "v.yaml"
    path.write_text(text)
    assert message in usage_error(SHOP, "delivery", f"--variant={files[0]}", f"--variant={path}")
    assert not EvalRun.objects.exists()


def test_agent_that_cannot_be_loaded_is_refused_with_its_error(store, tmp_path, files):
    agent = tmp_path / "closed_shop"
    agent.mkdir()
    (agent / "agent.py").write_text("raise RuntimeError('no key')")
    (agent / "delivery.evalset.json").write_text((SHOP / "delivery.evalset.json").read_text())
    message = usage_error(agent, "delivery", f"--variant={files[0]}")
    assert message.startswith("The agent cannot be loaded: ")
    assert "no key" in message


def test_options_that_exclude_variants_are_refused(store, files):
    variant = f"--variant={files[0]}"
    assert "--variant and --model cannot be given with --shard" in usage_error(
        SHOP, "delivery", variant, "--shard=1/2"
    )
    assert "Leave out --variant" in usage_error(SHOP, "delivery", variant, "--plan")
    assert "--variant cannot be given" in usage_error(SHOP, variant, "--resume=last")
    assert "Two variants have the name 'gold for all'" in usage_error(SHOP, "delivery", variant, variant)
    with pytest.raises(CommandError, match="--variant: the path is empty: name a file or a folder"):
        run_evals(SHOP, "delivery", "--variant=")
    assert "there is no such file" in usage_error(SHOP, "delivery", "--variant=gone.yaml")


ECHO = """
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types


class Echo(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["echo-.*"]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.ModelContent(self.model))


LLMRegistry.register(Echo)
root_agent = LlmAgent(name="echo", model="echo-1")
"""


@pytest.fixture
def echo(tmp_path):
    """The folder of an agent that answers with the name of its model, and an evalset that expects echo-1."""
    agent = tmp_path / "echo"
    agent.mkdir()
    (agent / "agent.py").write_text(ECHO)
    (agent / "names.evalset.json").write_text(json.dumps(evalset(case("name", turn("hi", "echo-1")))))
    return agent


def test_models_are_compared_as_variants_of_the_root_agent(store, echo):
    code, out = run_evals(
        echo, "names", "--num-runs=5", "--model=echo-2", "--model=echo-3", "--criteria=response_match_score=1"
    )
    assert code == 0
    assert "names.evalset.json: original and 2 variants" in out
    assert ["name", "5/5", "0/5", "regressed", "0/5", "regressed"] in [
        line.split() for line in out.splitlines()
    ]
    variants = [json.loads(run.variant) for run in EvalRun.objects.exclude(variant="").order_by("created_at")]
    assert [(variant["name"], variant["agents"]) for variant in variants] == [
        (name, {"echo": {"model": name}}) for name in ("echo-2", "echo-3")
    ]


def test_models_that_cannot_be_compared_are_refused_before_anything_runs(store, echo, files):
    assert "there is no class for the model 'none-1'" in usage_error(echo, "names", "--model=none-1")
    assert "Two variants have the name 'echo-2'" in usage_error(echo, "names", *["--model=echo-2"] * 2)
    models = [f"--model=echo-{number}" for number in range(4)]
    assert "5 variants are given" in usage_error(echo, "names", f"--variant={files[0]}", *models)
    assert "--model cannot be given with --shard" in usage_error(
        echo, "names", "--model=echo-2", "--shard=1/2"
    )
    assert "--model cannot be given" in usage_error(echo, "--model=echo-2", "--resume=last")
    assert not EvalRun.objects.exists()


def test_models_of_a_workflow_are_those_of_its_agents(store, echo):
    workflow = echo.rename(echo.with_name("echo_workflow"))
    root = "SequentialAgent(name='all', sub_agents=[LlmAgent(name='echo', model='echo-1')])"
    (workflow / "agent.py").write_text(f"{ECHO}\nroot_agent = {root}\n")
    assert "The root agent 'all' has no model of its own" in usage_error(workflow, "names", "--model=echo-2")
    run_evals(workflow, "names", "--model=echo-2", "--model-scope=all")
    variant = json.loads(EvalRun.objects.exclude(variant="").get().variant)
    assert variant["agents"] == {"echo": {"model": "echo-2"}}


FAHRENHEIT = Variant("in Fahrenheit", "", {"thermo": {"instruction": "Answer in Fahrenheit."}})


def stored(outcomes, variant=None, variant_of=None):
    """Return an ended run of the case a, perhaps of a variant."""
    run = stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": outcomes})
    if variant:
        run.variant, run.variant_hash, run.variant_of = variant.as_json(), variant.hash, variant_of
        run.save()
    return run


@pytest.mark.django_db
def test_run_of_a_variant_is_in_no_history_of_the_original():
    original = stored([passing()] * 4)
    variant_run = stored([failing()] * 4, FAHRENHEIT, original)
    later = stored([passing()] * 4)
    reference = baselines.find_reference(later)
    assert reference is not None
    assert [run.pk for run in reference.runs] == [original.pk]
    assert [run.pk for run in reference.earlier.runs] == [original.pk]
    assert baselines.find_reference(variant_run).run.pk == original.pk
    assert {point.run.pk for point in trends.read_evalset_trend(original.evalset).points} == {
        original.pk,
        later.pk,
    }
    later.delete()
    assert [run.pk for run in newest_runs(EvalSet.objects.all()).values()] == [original.pk]
    [first_case] = baselines.read_cases(original.version)
    assert [past.run for past in baselines.read_past_outcomes(variant_run, first_case)] == [original.pk]
    assert variant_run in baselines.list_comparable_runs(original)


@pytest.mark.django_db
def test_more_variants_need_more_evidence():
    original = stored([passing()] * 4)
    variants = [replace(FAHRENHEIT, patch={"thermo": {"model": str(number)}}) for number in range(4)]
    first_run = stored([failing()] * 4, variants[0], original)
    result = baselines.compare_runs(original, first_run)
    assert [case.verdict for case in result.cases] == [Verdict.REGRESSED]
    assert not any("variants" in note for note in result.notes)
    for variant in variants[1:]:
        stored([passing()] * 4, variant, original)
    matrix = variant_matrix.read_matrix(original)
    assert matrix is not None
    [row] = matrix.rows
    assert [cell.verdict for _, cell in row.cells] == [Verdict.UNCLEAR, *[Verdict.UNCHANGED] * 3]
    assert "Tests are adjusted for 4 variants." in matrix.columns[0].comparison.notes
    assert variant_matrix.read_matrix(first_run) is None


@pytest.mark.django_db
def test_comparison_and_export_name_the_variant():
    original = stored([passing()])
    variant_run = stored([passing()], FAHRENHEIT, original)
    [difference] = read_differences(original, variant_run)
    assert (difference.what, difference.before, difference.is_of_agent) == ("variant", "original", True)
    assert difference.after == f"in Fahrenheit {FAHRENHEIT.hash[:6]}"
    exported = json.loads(run_json.as_json([original, variant_run]))["runs"]
    assert exported[0]["variant"] is None
    assert exported[1]["variant"] == {
        "name": "in Fahrenheit",
        "note": "",
        "agents": FAHRENHEIT.patch,
        "hash": FAHRENHEIT.hash,
        "original_run": original.pk,
    }


@pytest.mark.django_db
def test_each_export_names_the_variant_and_how_it_compares():
    original = stored([passing()] * 4)
    variant_run = stored([failing()] * 4, FAHRENHEIT, original)
    results = [Gate().judge(original), Gate().judge(variant_run)]
    suites = ElementTree.fromstring(junit.as_junit(results))
    said = suites.find("./testsuite/testcase[@name='variant in Fahrenheit']/system-out").text
    assert said.startswith("1 regressed; pass rate 0 % worse, original 100 % (hash ")
    assert suites[0].get("tests") == "5"
    assert suites[0].find(".//failure") is None
    assert suites[1].get("name").endswith(" (variant in Fahrenheit)")
    properties = {row.get("name"): row.get("value") for row in suites[1].find("properties")}
    assert properties == {"variant": "in Fahrenheit", "variant_hash": FAHRENHEIT.hash}
    summary = markdown.as_markdown(results)
    assert (
        f"- `in Fahrenheit` (`{FAHRENHEIT.hash}`): 1 regressed; pass rate 0 % worse, original 100 %"
        in summary
    )
    assert "variant `in Fahrenheit`" in summary
    rows = [*csv.DictReader(io.StringIO(run_csv.as_csv([original, variant_run])))]
    assert [row["variant"] for row in rows] == [*[""] * 4, *["in Fahrenheit"] * 4]
    assert "1 regressed; pass rate 0 %" in html_page.as_html([original])
    facts = comparison_facts(Gate("previous").judge(variant_run))
    assert facts["variant"]["hash"] == FAHRENHEIT.hash


def test_result_files_have_the_runs_of_the_variants(store, tmp_path, files):
    written = {name: tmp_path / f"out.{name}" for name in ("json", "csv", "junit")}
    options = [f"--{name}={path}" for name, path in written.items()]
    assert run_evals(SHOP, "delivery:stranger_pays", f"--variant={files[0]}", *options)[0] == 0
    original, variant_run = json.loads(written["json"].read_text())["runs"]
    assert [row["run"] for row in original["variants"]] == [variant_run["id"]]
    assert variant_run["variant"]["name"] == "gold for all"
    assert "gold for all" in written["csv"].read_text()
    assert ElementTree.parse(written["junit"]).find(".//failure") is None


@pytest.mark.django_db
def test_repetition_and_retry_run_the_variant_again():
    original = stored([failing()] * 2)
    variant_run = stored([failing()] * 2, FAHRENHEIT, original)
    repeated = rerun.repeat(variant_run)
    [retried] = rerun.retry(variant_run)
    for run in (repeated, retried):
        assert (run.variant_hash, run.variant_of_id) == (FAHRENHEIT.hash, original.pk)
    assert len(variant_matrix.read_matrix(original).columns) == 2


async def test_run_of_a_variant_that_no_longer_fits_could_not_run(play):
    original = await play(evalset(case("a", turn("hi", "hi"))), lambda ctx, text: text)
    [ordered] = await units_of_work.write(order_variants, original, [FAHRENHEIT])
    await execute_run(
        ordered.pk,
        agents.Source(agents.Scripted(name="counter", answer=lambda ctx, text: text)),
        asyncio.Event(),
    )
    run = await units_of_work.write(EvalRun.objects.get, pk=ordered.pk)
    assert (run.status, run.error) == ("failed", "Variant 'in Fahrenheit': there is no agent 'thermo'.")
    assert run.hint == "Agents of counter: counter."


HOSTILE = Variant("<b>x</b>", "<i>n</i>", {"thermo": {"instruction": "<script>alert(1)</script>"}})


@pytest.fixture
def varied(settings, folder):
    """An original of which every attempt passed, and a variant that fails."""
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    original = stored([passing()] * 5)
    return original, stored([failing()] * 5, HOSTILE, original)


@pytest.mark.django_db
def test_page_of_a_variant_shows_its_changes_escaped(get, varied):
    original, variant_run = varied
    page = get(f"/evals/runs/{variant_run.pk}/")
    assert "variant <b>x</b>" in page.one("div", "page-head").text
    shown = page.one(css="variant-patch")
    assert "<i>n</i>" in shown.text
    assert "instruction: <script>alert(1)</script>" in shown.one("pre").text
    assert [link.attrs["href"] for link in shown.all("a")] == [
        f"/evals/runs/{original.pk}/#variants",
        f"/evals/runs/{variant_run.pk}/compare/?with={original.pk}",
        f"/evals/counter/kept/variants/?run={variant_run.pk}",
        f"/evals/runs/{variant_run.pk}/variant/save/",
        f"/evals/runs/{variant_run.pk}/variant/",
    ]
    assert not page.one(id="variants").all("table")


@pytest.mark.django_db
def test_page_of_the_original_has_the_matrix(get, varied):
    original, variant_run = varied
    page = get(f"/evals/runs/{original.pk}/")
    _, case_row, rate_row = page.one(id="variants").all("tr")
    assert case_row.text.split() == ["a", "5/5", "0/5", "regressed"]
    assert rate_row.text == "Pass rate 100 % 0 % worse overall"
    case_link, attempt_link = case_row.all("a")
    assert case_link.attrs["href"] == f"/evals/runs/{original.pk}/variants/0/"
    assert attempt_link.attrs["href"].startswith(f"/evals/runs/{variant_run.pk}/?attempt=")
    EvalRun.objects.filter(pk=variant_run.pk).update(status="running")
    assert "Running" in get(f"/evals/runs/{original.pk}/").one(id="variants").one("thead").text


def test_case_shows_what_the_original_and_each_variant_did(store, files, client):
    run_evals(SHOP, "delivery:standard_member_pays", *(f"--variant={path}" for path in files))
    original = EvalRun.objects.get(variant="")
    page = client.get(f"/evals/runs/{original.pk}/variants/2/")
    assert page.status_code == 200
    root = parse(page.content)
    assert [head.text for head in root.all("div", "variant-heads")[0].all("h2")] == [
        "Original",
        "gold for all",
        "no look-up",
    ]
    first, second = root.all("section", "variant-agent")
    assert 'no look-up find_customer(email="ben@example.com") no answer' in first.text
    assert "the turn was not reached" in second.text
    assert "the same answer" in first.text
    assert [mark.text for mark in second.all("ins")] == ["is", "free", "you"]
    assert (
        f'href="/evals/runs/{original.pk}/variants/2/"'
        in client.get(f"/evals/runs/{original.pk}/").content.decode()
    )
    for address in (f"/evals/runs/{original.pk}/variants/0/", f"/evals/runs/{gold_run().pk}/variants/2/"):
        assert client.get(address).status_code == 404


def gold_run() -> EvalRun:
    return next(run for run in EvalRun.objects.exclude(variant="") if "gold" in run.variant)


@pytest.mark.django_db
def test_case_of_active_variants_has_no_columns_yet(get, varied):
    original, variant_run = varied
    EvalRun.objects.filter(pk=variant_run.pk).update(status=EvalRun.Status.RUNNING)
    assert "Nothing to compare yet" in get(f"/evals/runs/{original.pk}/variants/0/").text


@pytest.mark.django_db
def test_case_of_variants_takes_few_queries_for_each(client, varied, django_assert_max_num_queries):
    original, _ = varied
    with django_assert_max_num_queries(60):
        text = client.get(f"/evals/runs/{original.pk}/variants/0/").content.decode()
    assert "&lt;b&gt;x&lt;/b&gt;" in text


@pytest.mark.django_db
def test_session_and_trace_of_an_attempt_name_its_variant(client, varied):
    _, variant_run = varied
    attempt = variant_run.attempts.first()
    realms = (attempt.realm, f"{attempt.realm}.2", "eval/gone/0/1")
    first, later_try, orphan = [
        AgentSession.objects.create(
            realm=realm, app_name="counter", user_id="u", session_id="s", created_at=1.0, updated_at=1.0
        )
        for realm in realms
    ]
    trace = Trace.objects.create(session=first, trace_id="t", invocation_id="i", started_at=1.0)
    for address in (f"/sessions/id/{first.pk}/", f"/sessions/id/{later_try.pk}/", f"/traces/{trace.pk}/"):
        text = client.get(address).content.decode()
        assert f'href="/evals/runs/{variant_run.pk}/?attempt={attempt.pk}"' in text
        assert "variant <bdi>&lt;b&gt;x&lt;/b&gt;</bdi>" in text
        assert HOSTILE.hash in text
    assert "?attempt=" not in client.get(f"/sessions/id/{orphan.pk}/").content.decode()


@pytest.mark.django_db
def test_lists_and_comparison_name_the_variant(get, varied):
    original, variant_run = varied
    cell = parse(render_to_string("devui/evals/run_cells.html#created", {"row": variant_run}).encode())
    assert "variant <b>x</b>" in cell.text
    page = get(f"/evals/runs/{variant_run.pk}/compare/?with={original.pk}")
    assert f"variant original → <b>x</b> {HOSTILE.hash[:6]}" in " ".join(
        page.one(css="what-changed").text.split()
    )
    report = parse(html_page.as_html([variant_run]).encode())
    assert report.one("h2").text == "counter / kept, variant <b>x</b>"
    offered = get(f"/evals/runs/{original.pk}/compare/?with={variant_run.pk}").one(id="with").text
    assert "variant <b>x</b>" in " ".join(offered.split())
