"""The comparison of two runs as one HTML file that can be sent to someone."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from evals_app.analysis import run_summary
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import comparison_page, html_page
from evals_app.analysis.exports.comparison_page import comparison_html
from sessions_app.delivery.failure import Failure
from tests.evals import stored_runs
from tests.evals.builders import turn
from tests.evals.stored_runs import Outcome, cases, failing, passing
from tests.pages.html import parse

pytestmark = pytest.mark.django_db
HOSTILE = "</code></style><script>alert(1)</script><img src=x onerror=alert(2)>"
KEYS = ("1234567890abcdef", "fedcba0987654321")
SECRETS = (*KEYS, "battery-staple", "correct-horse")


@pytest.fixture
def web(settings, folder):
    settings.DEVUI_AGENTS_DIR = str(folder.path)
    return Client()


def judge(then, now):
    return Gate(then.pk).judge(now)


def compare(before, after, *names):
    """Return two runs of the cases, with these attempts of each case."""
    of = stored_runs.version(cases(*names), f"of {len(names)}")
    return (
        stored_runs.run(of, dict.fromkeys(names, before)),
        stored_runs.run(of, dict.fromkeys(names, after), code="v2"),
    )


def login(status, key):
    """Return an attempt whose texts and calls quote credentials, and markup."""
    calls = [{"name": "login", "args": {"password": "correct-horse", "note": HOSTILE}}]
    return Outcome(
        status,
        actual=[turn(HOSTILE, f"{HOSTILE} My key is sk-{key}.", calls)],
        failure=Failure("RuntimeError", f"{HOSTILE} token=battery-staple"),
    )


def test_comparison_leaves_as_one_harmless_page_without_credentials(web):
    then, now = compare([login("passed", KEYS[0])], [login("error", KEYS[1])], HOSTILE)
    opened = parse(web.get(f"/evals/runs/{now.pk}/compare/?with={then.pk}").content)
    address = f"/evals/runs/{now.pk}/compare/export/?with={then.pk}"
    assert address in [link.attrs.get("href") for link in opened.all("a")]
    response = web.get(address)
    page = parse(response.content)
    assert response.headers["Content-Disposition"] == (
        f'attachment; filename="eval-compare-{then.pk}-{now.pk}.html"'
    )
    assert HOSTILE in page.text
    assert 'login(password="[redacted]"' in page.text
    assert not [secret for secret in SECRETS if secret in page.text or secret in response.content.decode()]
    outside = {"script", "img", "link", "use", "iframe", "a", "form"}
    assert not [element for element in page if element.tag in outside]
    assert not [
        name for element in page for name in element.attrs if name in ("src", "href") or name[:2] == "on"
    ]
    policy = page.one("meta", http_equiv="Content-Security-Policy").attrs["content"]
    assert policy.startswith("default-src 'none'")


def test_page_has_verdicts_reasons_and_both_sides(web):
    _, now = compare([passing()] * 8, [failing([{"name": "get_weather", "args": {"city": "Oslo"}}])] * 8, "a")
    page = parse(web.get(f"/evals/runs/{now.pk}/compare/export/").content)
    assert "This run is worse than the earlier ones." in page.text
    row = [cell.text for cell in page.one("table", css="cases").one("tbody").all("td")]
    assert (row[:3], "0 of 8" in row[3]) == (["regressed", "8/8", "0/8"], True)
    assert 'get_weather(city="Paris")' in page.one("table", css="calls").text
    assert 'get_weather(city="Oslo")' in page.one("table", css="calls").text
    assert "tool_trajectory_avg_score" in page.text
    assert "v1" in page.text
    assert "What changed in the agent" in page.text


def test_unchanged_cases_are_listed_without_their_sides(web):
    _, now = compare([passing()], [passing()], "a", "b")
    page = parse(web.get(f"/evals/runs/{now.pk}/compare/export/").content)
    assert len(page.one("table", css="cases").one("tbody").all("tr")) == 2
    assert not page.all("details")


def test_page_counts_what_it_leaves_out():
    calls = [{"name": f"f{number}"} for number in range(comparison_page.MAX_CALLS + 2)]
    turns = [turn("Paris", "x" * (comparison_page.MAX_ANSWER + 7), calls)]
    turns += [turn("Paris", "x")] * comparison_page.MAX_TURNS
    names = [f"case {number}" for number in range(comparison_page.MAX_OPEN_CASES + 2)]
    runs = compare([passing()], [Outcome("failed", actual=turns)], *names)
    text = parse(comparison_html(judge(*runs)).encode()).text
    assert "Both sides of 2 more cases that changed are left out." in text
    for words in ("1 more turn left out", "3 more calls left out", "7 more characters left out"):
        assert words in text


def test_queries_do_not_grow_with_cases():
    counts = []
    for count in (comparison_page.MAX_OPEN_CASES + 1, 2 * comparison_page.MAX_OPEN_CASES):
        runs = compare([passing()], [failing()], *(f"case {number}" for number in range(count)))
        with CaptureQueriesContext(connection) as captured:
            comparison_html(judge(*runs))
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert counts[0] <= 20 + 10 * comparison_page.MAX_OPEN_CASES


def test_run_without_another_one_has_no_comparison_to_export(web):
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [passing()]})
    response = web.get(f"/evals/runs/{run.pk}/compare/export/")
    assert response.status_code == 404
    assert "no other finished run" in response.content.decode()


def test_answers_of_a_case_export_have_no_other_whitespace():
    run = stored_runs.run(stored_runs.version(cases("a")), {"a": [failing()]})
    page = html_page.case_html(run_summary.find_attempt(run.attempts.get().pk))
    assert page.count('<div class="text">It is sunny in Paris.</div>') == 2
