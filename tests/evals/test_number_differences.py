"""Answers that pass although a number differs from the expected one are marked."""

from __future__ import annotations

import pytest

from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import junit, markdown
from evals_app.metrics.number_differences import describe_differences, different_numbers, is_number_note
from evals_app.models import MetricResult
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn
from tests.evals.web_pages import get_page

COLD = "The forecast for Oslo says that it is snowing there, −3 °C."
HOT = "The forecast for Oslo says that it is snowing there, 27 °F."


@pytest.mark.parametrize(
    ("expected", "actual", "missing", "others"),
    [
        (COLD, HOT, ["-3"], ["27"]),
        ("−3 °C", "-3 °C", [], []),
        ("-3 °C", "3 °C", ["-3"], ["3"]),
        ("24 °C", "24.0°C", [], []),
        ("1,200 EUR", "1200 EUR", [], []),
        ("1.234,50 EUR", "1,234.5 EUR", [], []),
        ("1’200", "1 200", ["1’200"], ["1", "200"]),
        ("1\u202f200", "1200", [], []),
        ("3,5 km", "3.5 km", [], []),
        ("on 2026-11-30", "on November 30, 2026", [], []),
        ("on 2026-11-30", "on 2026-11-29", ["30"], ["29"]),
        ("pages 5–7", "pages 5 to 7", [], []),
        ("It takes 2 days.", "It takes two days.", [], []),
        ("It is sunny.", "It is sunny, 24 °C.", [], ["24"]),
        ("It is 24 °C.", "It is warm.", ["24"], []),
        ("H2O and v2", "water", [], []),
        ("version 1.2.3", "version 1.2.4", ["1.2.3"], ["1.2.4"]),
        ("1. Pack a coat\n2. Pack boots", "Pack a coat and boots", [], []),
        ("気温は−3度です", "気温は3度です", ["-3"], ["3"]),
        ("気温は２４度です", "気温は24度です", [], []),
        ("3 of 3", "all 3", [], []),
        ("[1,2,3]", "1, 2, 3", [], []),
        ("[1,2,3]", "1, 2, 4", ["3"], ["4"]),
        ("1,234,567", "1234567", [], []),
        ("", "", [], []),
    ],
)
def test_numbers_are_compared_by_their_value(expected, actual, missing, others):
    assert different_numbers(expected, actual) == (missing, others)


def test_long_and_strange_numbers_are_bounded():
    note = describe_differences([(" ".join(map(str, range(100, 1000))) + "9" * 9_000, "none")])
    assert is_number_note(note)
    assert len(note) < 200
    assert describe_differences([("1" * 100_000, "1" * 100_000)]) == ""


def answers_in_fahrenheit(ctx, text):
    return [HOT if text == "Oslo" else "It is sunny in Paris, 24 °C."]


@pytest.fixture
async def run(play):
    """A run whose two cases pass, one of them with another number."""
    document = evalset(
        case("paris", turn("Paris", "It is sunny in Paris, 24 °C.")), case("oslo", turn("Oslo", COLD))
    )
    return await play(document, answers_in_fahrenheit, {"response_match_score": 0.8})


async def test_pass_with_another_number_is_marked_and_still_passes(run):
    assert (run.passed, run.failed) == (2, 0)
    rows = await units_of_work.read(
        lambda: dict(
            MetricResult.objects.filter(invocation=None, metric="response_match_score").values_list(
                "attempt__case_id", "reason"
            )
        )
    )
    assert rows["paris"] == ""
    assert is_number_note(rows["oslo"])
    assert "expected -3, answered 27" in rows["oslo"]


async def test_mark_is_shown_in_the_run_and_in_its_attempt(web, run):
    page = await get_page(web, f"/evals/runs/{run.id}/")
    rows = {row.one("th").all("a")[0].text: row for row in page.all("tr", css="case")}
    assert rows["oslo"].one("span", css="badge-warn").text == "other number"
    assert not rows["paris"].all("span", css="badge-warn")
    attempt = rows["oslo"].one("th").all("a")[0].attrs["data-attempt"]
    page = await get_page(web, f"/evals/runs/{run.id}/?attempt={attempt}")
    assert "expected -3, answered 27" in page.one("p", css="warn-text").text


async def test_mark_is_in_reports_as_no_failure(run):
    def read():
        result = Gate().judge(run)
        return junit.as_junit([result]), markdown.as_markdown([result])

    xml, summary = await units_of_work.read(read)
    assert "<failure" not in xml
    assert xml.count("expected -3, answered 27") == 1
    assert summary.count("expected -3, answered 27") == 1
