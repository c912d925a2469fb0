"""Export of judged runs as Markdown: the summary for a pull request. Read-only.

Ids, reasons and errors are text of agents and models. What is not plain prose becomes a code span, in which GitHub and
GitLab interpret nothing: no Markdown, HTML, links, mentions or references.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Sequence
from urllib.parse import quote

from django.urls import get_script_prefix, reverse

from evals_app.analysis import retries
from evals_app.analysis.case_verdicts import CaseChange, Verdict
from evals_app.analysis.ci_gate import HEADLINES, GateResult, GateStatus, find_worst_result
from evals_app.analysis.comparison import count_cases
from evals_app.analysis.exports.run_json import iter_attempts
from evals_app.analysis.figure_text import (
    describe_amounts,
    describe_scores,
    describe_slice,
    format_amount,
)
from evals_app.analysis.reasons import group_cases, name_runs
from evals_app.analysis.run_differences import read_currency
from evals_app.analysis.slices import read_slices
from evals_app.analysis.statistics import format_percent
from evals_app.analysis.variant_matrix import read_matrix
from evals_app.metrics.number_differences import NOTE_START
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.variants.variant import read_run_variant
from sessions_app.presentation.visible_text import escape_text
from sessions_app.store.short_texts import join_names

MARKS = {
    GateStatus.COULD_NOT_RUN: "❌",
    GateStatus.STOPPED: "❌",
    GateStatus.FAILED: "❌",
    GateStatus.NOT_COMPARED: "⚠️",
    GateStatus.NO_REGRESSION: "➖",
    GateStatus.PASSED: "✅",
}
LISTED = (Verdict.REGRESSED, Verdict.FIXED, Verdict.FLAKY, Verdict.UNCLEAR)
MAX_LISTED = 20
"""Cases of a list; of further ones the number is given."""
MAX_TEXT = 300
"""Characters of an id or a reason."""
MAX_LENGTH = 60_000
"""Characters of a summary: GitHub refuses comments of more than 65,536."""

_WORD = r"\(?[^\W\d_]+(?:['’-][^\W\d_]+)*[.,:;)]*"
_NUMBER = r"\(?[+−-]?\d[\d,]{0,6}(?:\.\d{1,6})?(?:e-\d+)?[.,:;)]*"
_PROSE = re.compile(rf"(?:{_WORD}|{_NUMBER})(?: (?:{_WORD}|{_NUMBER}|[=<≤≥→×%–][.,:;)]*))*")
"""Words, numbers and a few signs between single spaces: nothing that Markdown, GitHub or GitLab interprets."""


def as_markdown(results: Sequence[GateResult], address: str = "") -> str:
    """Return a summary of judged runs, the verdicts first.

    Args:
        results: the runs.
        address: base URL of a DevUI server that shows them; "": no links.
    """
    worst = find_worst_result(results)
    blocks = [f"### {worst.format_title(code)}"] if len(results) == 1 else [f"### {HEADLINES[worst.status]}"]
    blocks += [_format_verdict(result, has_title=len(results) > 1) for result in results]
    for result in results:
        blocks += _list_details(
            result, address, title=f"#### {_format_name(result.run)}" if len(results) > 1 else ""
        )
    return _keep_fitting_blocks(blocks)


def _keep_fitting_blocks(blocks: Sequence[str]) -> str:
    """Return the first blocks that fit into a comment, and how many are left out."""
    length, count = 0, 0
    for block in blocks:
        length += len(block) + 2
        if length > MAX_LENGTH:
            break
        count += 1
    omitted_count = len(blocks) - count
    note = (
        [f"{omitted_count} more sections are left out: they would not fit into a comment."]
        if omitted_count
        else []
    )
    return "\n\n".join([*blocks[:count], *note]) + "\n"


def _format_verdict(result: GateResult, *, has_title: bool) -> str:
    run, comparison = result.run, result.comparison
    listed = {*comparison.regressions, *comparison.doubts} if comparison else set()
    unlisted = [reason for reason in result.reasons if reason not in listed]
    title = f"{result.format_title(code)}. " if has_title and result.title not in HEADLINES.values() else ""
    tried_again = retries.find_retries(run)
    after_retries = f" ({tried_again.text})" if tried_again else ""
    passed = f"{run.passed:,} of {run.total:,} attempts passed{after_retries}."
    head = f"{MARKS[result.status]} {_format_name(run)}: {title}{passed} {_describe_whole(result)}"
    return "\n".join([head, "", *_format_bullets([text(reason) for reason in unlisted])]).rstrip()


def _format_name(run: EvalRun) -> str:
    variant = read_run_variant(run)
    return f"{code(run.app_name)} {code(run.evalset.evalset_id)}{f' variant {code(variant.name)}' if variant else ''}"


def _describe_whole(result: GateResult) -> str:
    """Return the verdict on the run as a whole."""
    comparison = result.comparison
    if comparison is None or result.reference is None:
        return "There is no run to compare with."
    whole_run = comparison.whole
    against = f"against {name_runs(result.reference, 8)}"
    if whole_run.refusal:
        return f"There is no verdict on the whole {against}: {text(whole_run.refusal)}"
    if whole_run.effect is None or not (whole_run.is_worse or whole_run.is_better):
        notes = " ".join(filter(None, (whole_run.variation, whole_run.dependence.text)))
        return f"As a whole no change is shown {against} over {count_cases(whole_run.cases)}. {text(notes)}"
    points = abs(100 * whole_run.effect.mean)
    return (
        f"As a whole it is **{'worse' if whole_run.is_worse else 'better'}** {against}: the pass rate"
        f" {'fell' if whole_run.is_worse else 'rose'} by {points:.1f} points over {count_cases(whole_run.cases)}."
    )


def _list_details(result: GateResult, address: str, title: str) -> Iterator[str]:
    """Yield the lists of cases, the amounts and the links of a run."""
    if title:
        yield title
    if result.comparison is None:
        yield from _list_items(
            "Not passed", [f"{code(name)}: {text(why)}" for name, why in _find_failure_reasons(result.run)]
        )
    else:
        for verdict in LISTED:
            yield from _list_cases(str(verdict).capitalize(), result.comparison.cases_with(verdict))
        yield from _list_cases("Failing without a comparable earlier outcome", result.failing_new_cases)
    yield from _list_items("Variants", _list_variants(result.run))
    yield from _list_items("Passed with other numbers", _list_number_notes(result.run))
    scores = describe_scores(result.run, result.comparison)
    yield from _list_items("Scores", [f"{code(name)}: {means}" for name, means in scores.items()])
    slices = read_slices(result.run, result.comparison)
    yield from _list_items("Tags", [f"{code(tagged.tag)}: {describe_slice(tagged)}" for tagged in slices])
    yield "\n".join(_list_amounts(result))
    if links := _format_links(result, address):
        yield links


def _list_cases(title: str, cases: Sequence[CaseChange]) -> Iterator[str]:
    """Yield a list of cases, each reason once."""
    groups = group_cases(cases)
    items = [f"{join_names([code(name) for name in names])}: {text(reason)}" for names, reason in groups]
    yield from _list_items(title, items, len(cases))


def _list_items(title: str, items: Sequence[str], count: int = 0) -> Iterator[str]:
    """Yield a list of items, unless it is empty. `count` is the number in its title; 0: that of the items."""
    if items:
        yield "\n".join([f"**{title} ({count or len(items):,})**", "", *_format_bullets(items)])


def _format_bullets(items: Sequence[str]) -> list[str]:
    bullets = [f"- {item}" for item in items[:MAX_LISTED]]
    return [*bullets, f"- … and {len(items) - MAX_LISTED:,} more"] if len(items) > MAX_LISTED else bullets


def _find_failure_reasons(run: EvalRun) -> ItemsView[str, str]:
    """Return the reason of the first attempt of each case that did not pass, by the case's name."""
    reasons: dict[str, str] = {}
    for attempt in iter_attempts(run):
        if attempt.status != EvalAttempt.Status.PASSED:
            reasons.setdefault(attempt.case_id, attempt.cause or attempt.error or str(attempt.status))
    return reasons.items()


def _list_variants(run: EvalRun) -> list[str]:
    """Return a line for each variant that was run beside a run of the original: how it compares."""
    matrix = read_matrix(run)
    if matrix is None:
        return []
    original = format_percent(matrix.rate.value)
    return [
        f"{code(column.variant.name)} ({code(column.run.variant_hash)}): {column.counts}; pass rate {column.rate},"
        f" original {original}"
        for column in matrix.columns
    ]


def _list_number_notes(run: EvalRun) -> list[str]:
    """Return a line for each case that passed although numbers of an answer differ from the expected ones."""
    marked = MetricResult.objects.filter(attempt__run=run, invocation=None, reason__startswith=NOTE_START)
    rows = marked.order_by("attempt__case_index", "-attempt__repetition", "position")
    notes = dict(rows.values_list("attempt__case_id", "reason"))
    return [f"{code(name)}: {code(note)}" for name, note in notes.items()]


def _list_amounts(result: GateResult) -> Iterator[str]:
    """Yield cost, tokens and time of the run, and of an attempt against the baseline."""
    run = result.run
    currency = text(read_currency(run))
    yield f"In all: {describe_amounts(run, currency)}."
    for amount in result.comparison.amounts if result.comparison else ():
        if amount.before is not None and amount.after is not None:
            sides = ((amount.before, amount.after), (amount.after, amount.before))
            values = (format_amount(amount.name, value, currency, other) for value, other in sides)
            percents = f", {amount.ratio - 1:+.0%}" if amount.ratio is not None else ""
            mean = f"mean of {count_cases(amount.cases)}{percents}"
            yield f"- {amount.name} of an attempt: {' → '.join(values)} ({mean})"


def _format_links(result: GateResult, address: str) -> str:
    if not address:
        return ""
    links = [f"[Run]({address}{_page_path('eval-run', result.run)})"]
    if result.reference is not None:
        name = quote(result.reference.name, safe="")
        links.append(f"[Comparison]({address}{_page_path('eval-run-compare', result.run)}?with={name})")
    return " · ".join(links)


def _page_path(page: str, run: EvalRun) -> str:
    """Return the path of a page below the address of the server, which includes its URL prefix."""
    path = reverse(page, urlconf="evals_app.urls", kwargs={"run_id": run.id})
    return f"/{path.removeprefix(get_script_prefix())}"


def text(value: str) -> str:
    """Return a sentence of others: as it is if it is plain prose, else as a code span."""
    return value if len(value) <= MAX_TEXT and _PROSE.fullmatch(value) else code(value)


def code(value: str) -> str:
    """Return a text of others as a code span of one line, shortened."""
    line = " ".join(escape_text(value.replace("\n", " ")).split()) or "(empty)"
    if len(line) > MAX_TEXT:
        line = f"{line[:MAX_TEXT]}…"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{pad}{line}{pad}{fence}"
