"""`--markdown`: summary of runs for a pull request, safe for any text of agents and models."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st
from justhtml import JustHTML
from markdown_it import MarkdownIt

from evals_app.analysis.baselines import Reference
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.ci_gate import GateResult
from evals_app.analysis.comparison import Amount, Comparison
from evals_app.analysis.exports.markdown import MAX_LENGTH, MAX_TEXT, as_markdown, code, text
from evals_app.analysis.outcomes import CaseKey
from evals_app.analysis.statistics import paired_effect
from evals_app.analysis.stored_outcomes import EarlierRuns
from evals_app.analysis.whole_run import Whole
from evals_app.models import EvalRun
from tests.evals import stored_runs
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error
from tests.evals.stored_runs import broken, cases, failing, passing

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = [
    "@everyone",
    "a@example.com",
    "![x](https://evil.example/p.png)",
    "[click](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "<!-- devui-evals -->",
    "https://evil.example/",
    "www.evil.example",
    "#1",
    "GH-1",
    "!1 %1 ~bug $1",
    "`@everyone` ``` `",
    "``",
    "line\n\n# heading\n- [ ] task",
    "a | b\n|---|---|\n",
    "\u202eevil\u200b\x1b[31m",
    "__init__ *bold* ~~gone~~",
    "$\\href{https://evil.example}{x}$",
]


def whole(*differences: float, probability: float = 1.0, refusal: str = "") -> Whole:
    fell = sum(difference < 0 for difference in differences)
    effect = paired_effect(differences)
    return Whole(len(differences), fell, 0, probability, fell=bool(fell), effect=effect, refusal=refusal)


def change(name: str, verdict: Verdict, because: str = "3 of 3 passed before, 0 of 3 after.") -> CaseChange:
    return CaseChange(CaseKey(name), verdict, because, None, None)


def judged(*changes: CaseChange, fails: list[str] | None = None, **more) -> GateResult:
    of = stored_runs.version(cases("a", "b"))
    then, now = (stored_runs.run(of, {"a": [passing()], "b": [failing()]}) for _ in range(2))
    comparison = Comparison(list(changes), more.pop("whole", whole(0.0, 0.0)), **more)
    return GateResult(now, Reference(then.pk, [then], {}, EarlierRuns([then], now)), comparison, fails or [])


def rendered(markdown: str) -> JustHTML:
    """Return the summary as a browser shows it."""
    html = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown)
    return JustHTML(html, fragment=True, sanitize=False)


def prose(markdown: str) -> str:
    """Return the text outside of code, in which GitHub and GitLab look for mentions, references and addresses."""
    html = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown)
    return re.sub(r"<[^>]*>", "", re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL))


def test_verdict_of_the_run_comes_first_then_cases_amounts_and_links():
    amounts = [Amount("cost", 0, None, None), Amount("tokens", 2, 100.0, 150.0)]
    result = judged(
        change("worse", Verdict.REGRESSED),
        change("better", Verdict.FIXED, "0 of 3 passed before, 3 of 3 after."),
        change("sometimes", Verdict.FLAKY, "1 of 2 passed before, 2 of 2 after."),
        change("unsure", Verdict.UNCLEAR, "1 of 1 passed before, 0 of 1 after: repeat it 4 times."),
        change("same", Verdict.UNCHANGED),
        fails=["worse: 3 of 3 passed before, 0 of 3 after.", "The run is cancelled."],
        whole=whole(-0.5, -0.25, probability=0.01),
        amounts=amounts,
    )
    summary = as_markdown([result], "https://devui.example.com/here")
    lines = [line for line in summary.splitlines() if line]
    assert lines[0] == "### Evals failed"
    assert lines[1].startswith(
        "❌ `counter` `kept`: 1 of 2 attempts passed. As a whole it is **worse** against run"
    )
    assert lines[1].endswith("the pass rate fell by 37.5 points over 2 cases.")
    assert lines[2] == "- The run is cancelled."
    assert lines[3:11] == [
        "**Regressed (1)**",
        "- `worse`: 3 of 3 passed before, 0 of 3 after.",
        "**Fixed (1)**",
        "- `better`: 0 of 3 passed before, 3 of 3 after.",
        "**Flaky (1)**",
        "- `sometimes`: 1 of 2 passed before, 2 of 2 after.",
        "**Unclear (1)**",
        "- `unsure`: 1 of 1 passed before, 0 of 1 after: repeat it 4 times.",
    ]
    assert lines[11:14] == [
        "**Scores (2)**",
        "- `tool_trajectory_avg_score`: mean 0.5",
        "- `response_match_score`: mean 1",
    ]
    assert lines[14].startswith("In all: ")
    assert lines[15] == "- tokens of an attempt: 100 tokens → 150 tokens (mean of 2 cases, +50%)"
    here = f"https://devui.example.com/here/evals/runs/{result.run.id}/"
    assert lines[16] == f"[Run]({here}) · [Comparison]({here}compare/?with={result.reference.name})"


def test_refusal_says_why_there_is_no_verdict_on_the_whole():
    summary = as_markdown(
        [judged(whole=whole(-0.5, -0.5, probability=0.01, refusal="No case can be compared."))]
    )
    assert re.search(r"There is no verdict on the whole against run \w+: No case can be compared.\n", summary)


def test_links_are_below_the_address_whatever_the_prefix_of_this_process():
    with override_settings(FORCE_SCRIPT_NAME="/mine"):
        summary = as_markdown([judged()], "https://devui.example.com/theirs")
    assert "https://devui.example.com/theirs/evals/runs/" in summary
    assert "http" not in as_markdown([judged()])


def test_summary_without_baseline_lists_failures_with_cause():
    of = stored_runs.version(cases("fine", "wrong", "raises"))
    run = stored_runs.run(of, {"fine": [passing()], "wrong": [failing()], "raises": [broken("<b>fire</b>")]})
    summary = as_markdown([GateResult(run, fails=["2 of 3 attempts did not pass."])])
    assert "There is no run to compare with." in summary
    assert "**Not passed (2)**" in summary
    assert "- `wrong`: `get_weather: not called`" in summary
    assert "- `raises`: `RuntimeError: <b>fire</b>`" in summary


def test_long_lists_and_texts_are_bounded_and_count_what_is_left_out():
    many = [
        change(f"case {number} {'`' * 9_000}", Verdict.REGRESSED, f"@{number}" + "@x" * 9_000)
        for number in range(53)
    ]
    summary = as_markdown([judged(*many)])
    assert "**Regressed (53)**" in summary
    assert "- … and 33 more" in summary
    results = [judged(*many)] * 40
    summary = as_markdown(results)
    assert len(summary) <= MAX_LENGTH + 100
    assert summary.count("➖ `counter` `kept`") == 40, "verdicts come first"
    assert re.search(r"\n\d+ more sections are left out", summary)


@pytest.mark.parametrize("evil", HOSTILE)
def test_text_of_agents_injects_nothing(evil):
    result = judged(
        change(evil, Verdict.REGRESSED, evil),
        change(f"a {evil} b", Verdict.UNCLEAR, f"a {evil}"),
        fails=[evil],
    )
    summary = as_markdown([result])
    page = rendered(summary)
    assert {node.name for node in page.query("*")} <= {"h3", "p", "ul", "li", "strong", "code"}
    assert len(page.query("h3")) == 1
    assert not re.search(r"[@<>#~$!\[\]|]|//|www|GH-\d|%\d", prose(summary)), prose(summary)
    assert not re.search("[\u202e\u200b\x1b]", summary)


@given(st.text(alphabet="`@a1 #<>[]()!*_~$|\\\n.:/-w&;é", max_size=60))
def test_any_text_is_plain_prose_or_one_code_span(value):
    for markdown in (code(value), text(value)):
        html = MarkdownIt("gfm-like", {"html": True, "linkify": False}).renderInline(f"x {markdown} y")
        assert re.fullmatch(r"x (?:<code>[^<]*</code>|[^<@#`*_~$|\\/\[\]&]*) y", html), html


def test_prose_stays_readable():
    sentence = "2 of 3 passed before, 0 of 3 after (Fisher's exact one-sided test, p = 0.031, 95 % interval)."
    assert text(sentence) == sentence
    rate = "Passes 25 % of the time (95 % interval 5 % to 70 %, 4 attempts)."
    assert text(rate) == rate
    assert text("word " * MAX_TEXT) != "word " * MAX_TEXT


def test_command_writes_the_summary_with_links(store, tmp_path, monkeypatch):
    monkeypatch.setenv("DEVUI_URL", "https://devui.example.com/")
    weather, summary = EXAMPLE_AGENTS / "weather", tmp_path / "out" / "summary.md"
    code_, _ = run_evals(weather, "one_fails_on_purpose", "--markdown", summary)
    assert code_ == 1
    output = summary.read_text()
    assert output.startswith("### Evals failed\n\n❌ `weather` `one_fails_on_purpose`")
    assert "- `fails_on_purpose`: " in output
    assert "](https://devui.example.com/evals/runs/" in output


def test_run_that_could_not_run_is_summarized(store, tmp_path):
    (tmp_path / "broken_agent").mkdir()
    (tmp_path / "broken_agent" / "agent.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "broken_agent" / "s.evalset.json").write_text(
        '{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": []}]}'
    )
    code_, _ = run_evals(tmp_path / "broken_agent", "s", "--markdown", tmp_path / "s.md")
    assert code_ == 2
    summary = (tmp_path / "s.md").read_text()
    assert re.search(
        r"^- `The run could not run\. .*No module named 'nothing_of_this_name'`$", summary, re.MULTILINE
    )


@pytest.mark.parametrize(
    "address", ["devui", "javascript:alert(1)", "https://a b", "https://a/)(x", "https://", "http://["]
)
def test_address_that_is_none_is_refused(store, address):
    error_text = usage_error(EXAMPLE_AGENTS / "weather", "lookups", "--url", address)
    assert "is not the address of a DevUI server" in error_text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file/s.md", "cannot be written: File exists."),
        ("folder", "cannot be written: Is a directory."),
        ("x" * 300, "cannot be written: File name too long."),
    ],
)
def test_unwritable_summary_is_refused_before_the_run(store, tmp_path, name, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    error_text = usage_error(EXAMPLE_AGENTS / "weather", "lookups:one_city", "--markdown", tmp_path / name)
    assert message in error_text
    assert not EvalRun.objects.exists()


def test_dash_as_a_file_is_refused(store):
    error_text = usage_error(EXAMPLE_AGENTS / "weather", "lookups:one_city", "--json", "-")
    assert "--json needs a file." in error_text


def test_second_case_with_an_id_is_told_from_the_first():
    second = replace(change("a", Verdict.REGRESSED), key=CaseKey("a", 2))
    assert "- `a (2)`: " in as_markdown([judged(second)])


def test_unclear_case_says_how_many_repetitions_decide():
    unclear = replace(change("a", Verdict.UNCLEAR, "It failed now."), repetitions=4, of_both_runs=True)
    summary = as_markdown([judged(unclear)])
    assert (
        "- `a`: It failed now. If it is better, 4 repetitions of both versions would probably prove it."
        in summary
    )
