"""Every page under axe's rules for WCAG 2.1 A and AA in both themes, and on a narrow screen."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from django.urls import URLPattern, resolve
from playwright.sync_api import Page, expect

import devui.urls
import evals_app.urls
import sessions_app.urls
from devui.web import page_context
from tests.browser import OpenWindow
from tests.e2e.axe import CONTRAST_RULES, WCAG_RULES, violations
from tests.e2e.conftest import Server, open_new_session, say
from tests.e2e.offered_controls import find_refused_controls

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("demo")]


PAPER = "getComputedStyle(document.body).backgroundColor"
NARROW = 390
WIDE = """width => [...document.querySelectorAll("body *")]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > width + 1)
    .slice(0, 5).map((one) => one.outerHTML.slice(0, 160))"""


def address(path: str) -> Callable[[Page], None]:
    """Return what opens an address."""
    return lambda page: page.goto(path) and None


def session_with_an_open_inspector(page: Page) -> None:
    page.goto("/sessions/weather/ben/tour/")
    page.locator("article.event .event-seq").last.click()
    expect(page.locator("#inspector-title")).to_contain_text("event")


def session_that_waits_for_an_answer(page: Page) -> None:
    page.goto("/sessions/office/aya/awaits-confirmation/")
    expect(page.locator(".question").first).to_be_visible()


def session_with_a_running_run(page: Page) -> None:
    open_new_session(page, "office", "axe", "running")
    say(page, "Take 60 seconds")
    expect(page.locator("#runs")).to_contain_text("running", ignore_case=True)


def trace(page: Page) -> None:
    """Run an agent and open what was recorded of it."""
    owner = {"appName": "weather", "userId": "axe", "sessionId": f"traced-{uuid.uuid4()}"}
    page.goto("/runs/")
    page.request.post(f"/apps/weather/users/axe/sessions/{owner['sessionId']}", data={})
    message = {"role": "user", "parts": [{"text": "What is the weather in Paris?"}]}
    answer = page.request.post("/run", data={**owner, "newMessage": message}, timeout=60_000)
    assert answer.ok, answer.text()
    page.goto("/runs/?app=weather")
    page.get_by_role("link", name="Trace of a turn").first.click()
    expect(page.locator(".bar-row").first).to_be_visible()


def trends(page: Page) -> None:
    """Run an agent and open the trend of its models, once the run was counted."""
    trace(page)
    plot = page.locator("svg.trend").first
    for _ in range(20):
        page.goto("/trends/?app=weather&measure=model-latency")
        if plot.is_visible():
            return
        page.wait_for_timeout(1_000)
    expect(plot).to_be_visible()


def log(page: Page) -> None:
    """Run an agent, which logs nothing, and open its log."""
    trace(page)
    page.goto(f"{page.url}log/")
    expect(page.get_by_text("Nothing was logged")).to_be_visible()


def span(page: Page) -> None:
    trace(page)
    page.locator(".bar-attributes summary").first.click()
    page.get_by_role("link", name="Everything about this span").first.click()
    expect(page.locator(".span-page")).to_be_visible()


def model_call(page: Page) -> None:
    trace(page)
    page.locator(".call-list a").first.click()
    expect(page.locator(".model-call")).to_be_visible()


def playground(page: Page) -> None:
    model_call(page)
    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Add a column").click()
    expect(page.get_by_label("Repetitions")).to_have_count(2)


def playground_run(page: Page) -> None:
    playground(page)
    page.get_by_label("System instruction").last.fill("Be brief.")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/try/*/")
    expect(page.locator("#playground-answers [data-status=done]")).to_have_count(2)


def playground_runs(page: Page) -> None:
    playground_run(page)
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("#playground-runs tbody tr").first).to_be_visible()


def deletion_of_a_playground_run(page: Page) -> None:
    playground_run(page)
    page.goto(page.get_by_role("link", name="Delete").get_attribute("href") or "")


def outcome_of_a_tool(page: Page) -> None:
    page.goto("/agents/weather/")
    page.goto(page.locator("a[href*='/tools/get_weather/']").get_attribute("href") or "")
    page.get_by_label("city").fill("Paris")
    page.get_by_role("button", name="Call", exact=True).click()
    expect(page.locator(".tool-outcome")).to_be_visible()


def run_variant(page: Page) -> None:
    page.goto("/evals/weather/lookups/variants/?case=one_city")
    page.get_by_label("Instruction of weather, variant 1").fill("Answer in Fahrenheit.")
    page.get_by_role("button", name="Run original and 1 variant").click()
    page.wait_for_url("**/evals/runs/**")


def case_of_variants(page: Page) -> None:
    run_variant(page)
    expect(page.locator("#variants td .nowrap").first).to_be_visible()
    page.locator("#variants tbody").get_by_role("link", name="one_city").click()
    expect(page.get_by_role("heading", name="State at the end")).to_be_visible()


def saved_variant(page: Page) -> None:
    run_variant(page)
    page.locator("#variants thead").get_by_role("link").click()
    page.get_by_role("link", name="Save to file").click()
    expect(page.locator(".file-diff")).to_be_visible()


def simulated_case(page: Page) -> None:
    page.goto("/evals/weather/lookups/case/")
    page.get_by_label("simulated: a model plays the user").check()
    expect(page.get_by_label("Starting prompt")).to_be_visible()


def reviewed_case(page: Page) -> None:
    page.goto("/evals/weather/lookups/case/?id=one_city")
    page.get_by_label("Expected answer").fill("It is sunny.")
    page.get_by_role("button", name="Review the change").last.click()
    expect(page.get_by_role("button", name="Save to the file")).to_be_visible()


def report_and_attempt(page: Page) -> None:
    page.goto("/evals/weather/one_fails_on_purpose/")
    page.get_by_role("button", name=re.compile("^Run")).first.click()
    page.wait_for_url("**/evals/runs/**")
    expect(page.locator("#summary")).to_contain_text("1 of 2 passed", timeout=60_000)
    page.locator("#cases tr.case", has_text="fail").first.get_by_role("link").first.click()
    expect(page.locator("#attempt")).to_contain_text("Expected", ignore_case=True)


def optimisation(page: Page) -> None:
    page.goto("/evals/weather/lookups/optimise/")
    page.get_by_label("Model that writes instructions").fill("offline-judge")
    page.get_by_label("Proposals").fill("1")
    page.get_by_role("button", name="Optimise", exact=True).click()
    page.wait_for_url("**/evals/optimisations/**", timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=60_000)


def compared_runs(page: Page) -> None:
    report_and_attempt(page)
    report_and_attempt(page)
    page.get_by_role("link", name="Compare").click()
    expect(page.locator(".compare-table")).to_be_visible()


def trend(page: Page) -> None:
    report_and_attempt(page)
    page.get_by_role("link", name="Run history", exact=True).click()
    expect(page.locator("svg.trend")).to_be_visible()


def dialog(page: Page) -> None:
    page.goto("/sessions/")
    page.get_by_role("link", name="New session").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()


def console_with_its_options(page: Page) -> None:
    page.goto("/sessions/weather/ben/tour/")
    page.get_by_role("button", name="Options").click()
    page.locator(".run-config > summary", has_text="RunConfig").click()
    expect(page.get_by_label("max_llm_calls")).to_be_visible(timeout=60_000)


def resuming_a_run(page: Page) -> None:
    page.goto("/runs/")
    runs = page.evaluate("fetch('/api/v1/runs?status=done').then((answer) => answer.json())")["runs"]
    page.goto(f"/runs/{runs[0]['id']}/resume/")


def of_session(
    path: str, app: str = "weather", user: str = "ben", session_id: str = "tour"
) -> Callable[[Page], None]:
    """Return what opens a page about a session; `{pk}` is its key, `{event}` its newest event on the page."""

    def opened(page: Page) -> None:
        page.goto(f"/sessions/{app}/{user}/{session_id}/")
        socket = page.locator("#session").get_attribute("data-socket") or ""
        event = page.locator("#events [data-event-id]").last.get_attribute("data-event-id")
        page.goto(path.format(pk=socket.strip("/").rpartition("/")[2], event=event))

    return opened


def history_of_a_key(page: Page) -> None:
    page.goto("/state/?app=weather&user=aya")
    page.goto(page.locator("a[href*='/state/history/']").first.get_attribute("href") or "")


def artifact(page: Page) -> None:
    page.goto("/artifacts/?app=office")
    page.goto(page.locator(".artifact-name a").first.get_attribute("href") or "")


def deletion_of_an_artifact(page: Page) -> None:
    artifact(page)
    page.goto(page.locator("a[href*='/artifacts/delete/']").first.get_attribute("href") or "")


def deletion_of_a_memory(page: Page) -> None:
    page.goto("/memory/?app=office")
    page.goto(page.locator(".memory-delete").first.get_attribute("href") or "")


def value_of_a_key(page: Page) -> None:
    history_of_a_key(page)
    page.goto(page.url.replace("/history/", "/values/") + "whole/")


def sorted_sessions(page: Page) -> None:
    page.goto("/sessions/?sort=-tokens&hide=id")
    page.locator(".table-menu > summary").click()


def palette(page: Page) -> None:
    page.goto("/go/")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette").get_by_role("option", name="weather").first).to_be_visible()


def help_of_keys(page: Page) -> None:
    page.goto("/sessions/weather/ben/tour/")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()


@dataclass(frozen=True)
class Place:
    """A page to look at: how it is opened, and the route it is."""

    route: str
    opened: Callable[[Page], None]


PLACES = {
    "home": Place("home", address("/")),
    "go": Place("devui-go", address("/go/")),
    "palette": Place("devui-go", palette),
    "keys": Place("session", help_of_keys),
    "sorted sessions": Place("sessions", sorted_sessions),
    "sessions": Place("sessions", address("/sessions/")),
    "sessions found": Place("sessions", address("/sessions/?q=paris")),
    "wrong query": Place("sessions", address("/sessions/?q=retires+>+3")),
    "query help": Place("query-help", address("/sessions/query-help/")),
    "saved views": Place("saved-views", address("/sessions/views/")),
    "new session in a dialog": Place("sessions", dialog),
    "new session": Place("session-new", address("/sessions/new/")),
    "session": Place("session", session_with_an_open_inspector),
    "session by key": Place("session-by-pk", of_session("/sessions/id/{pk}/?seq=3&diff=7")),
    "raw event": Place("session", address("/sessions/weather/ben/tour/?seq=2&tab=raw")),
    "details of an event": Place("session", address("/sessions/weather/ben/tour/?seq=3&tab=details")),
    "search within": Place("session", address("/sessions/weather/ben/tour/?q=rome&only=1&seq=4")),
    "wrong query within": Place("session", address("/sessions/weather/ben/tour/?q=kind:agnet")),
    "failed session": Place("session", address("/sessions/office/ben/ends-in-an-error/")),
    "question": Place("session", session_that_waits_for_an_answer),
    "running": Place("session", session_with_a_running_run),
    "not found": Place("session", address("/sessions/weather/aya/nothing/")),
    "two sessions": Place("session-compare", of_session("/sessions/compare/?left={pk}")),
    "rewind": Place("session-rewind", of_session("/sessions/id/{pk}/rewind/?event={event}")),
    "fork": Place("session-fork", of_session("/sessions/id/{pk}/fork/?seq=3")),
    "replay": Place("session-replay", of_session("/evals/replay/{pk}/")),
    "changed agent on a session": Place("session-variants", of_session("/evals/replay/{pk}/variants/")),
    "console": Place("session", console_with_its_options),
    "message": Place("session-message", of_session("/runs/message/{pk}/")),
    "live": Place("session-live", of_session("/runs/live/{pk}/")),
    "edited message": Place("message-edit", of_session("/runs/edit/{pk}/1/")),
    "resume": Place("run-resume", resuming_a_run),
    "rename": Place("session-rename", of_session("/sessions/id/{pk}/rename/")),
    "delete": Place("session-delete", of_session("/sessions/id/{pk}/delete/")),
    "edit a key": Place("key-edit", of_session("/sessions/id/{pk}/state/edit/")),
    "remove a key": Place("key-remove", of_session("/sessions/id/{pk}/state/remove/?key=count")),
    "drift": Place("session-drift", of_session("/sessions/id/{pk}/state/drift/")),
    "problems": Place("session-problems", of_session("/sessions/id/{pk}/problems/")),
    "hints": Place("session-problems", of_session("/sessions/id/{pk}/problems/?scope=state")),
    "history of a key": Place("key-history", history_of_a_key),
    "whole value": Place("state-whole-value", value_of_a_key),
    "states": Place("state", address("/state/")),
    "state": Place("state", address("/state/?app=weather&user=aya")),
    "found shared values": Place("state", address("/state/?q=key:user:last_city")),
    "all problems": Place("problems", address("/problems/")),
    "runs": Place("runs", address("/runs/")),
    "artifacts": Place("artifacts", address("/artifacts/")),
    "artifact": Place("artifact", artifact),
    "artifacts there": Place(
        "artifacts-there", address("/artifacts/there/?app=office&user=aya&session=minutes")
    ),
    "memory there": Place("memory-there", address("/memory/there/?app=office&user=aya&q=tea")),
    "import of a file": Place("session-upload", address("/sessions/import/")),
    "upload": Place("artifact-upload", address("/artifacts/upload/")),
    "delete an artifact": Place("artifact-delete", deletion_of_an_artifact),
    "memory": Place("memory", address("/memory/")),
    "recall": Place("memory", address("/memory/?app=office&user=aya&q=budget")),
    "forget": Place("memory-delete", deletion_of_a_memory),
    "monitor": Place("monitor", address("/monitor/")),
    "trends": Place("trends", trends),
    "trace": Place("trace", trace),
    "span": Place("span", span),
    "log": Place("trace-log", log),
    "model call": Place("model-call", model_call),
    "playground": Place("playground", playground),
    "playground run": Place("playground-run", playground_run),
    "playground runs": Place("playground-runs", playground_runs),
    "deletion of a playground run": Place("playground-delete", deletion_of_a_playground_run),
    "model call of an event": Place("event-model-call", of_session("/sessions/id/{pk}/events/2/model/")),
    "what the model sees": Place("event-seen", of_session("/sessions/id/{pk}/events/2/seen/")),
    "judgement": Place("event-judge", of_session("/sessions/id/{pk}/events/12/judge/")),
    "why this answer": Place("event-why", of_session("/sessions/id/{pk}/events/12/why/")),
    "trace of an event": Place("event-trace", of_session("/sessions/id/{pk}/events/2/trace/")),
    "agent": Place("agent", address("/agents/weather/")),
    "instructions": Place("agent-instructions", address("/agents/weather/instructions/")),
    "tool": Place("tool-call", outcome_of_a_tool),
    "evals": Place("evals", address("/evals/")),
    "evalset": Place("evalset", address("/evals/weather/one_fails_on_purpose/")),
    "case": Place("eval-case", address("/evals/weather/lookups/case/?id=remembers_the_name")),
    "simulated case": Place("eval-case", simulated_case),
    "reviewed case": Place("eval-case", reviewed_case),
    "change of an evalset": Place(
        "evalset-change", address("/evals/weather/lookups/change/?action=remove&id=one_city")
    ),
    "removal of an evalset": Place("evalset-delete", address("/evals/weather/lookups/delete/")),
    "plan of a run": Place("evalset-plan", address("/evals/weather/lookups/plan/")),
    "changed agent": Place("evalset-variants", address("/evals/weather/lookups/variants/")),
    "case of variants": Place("eval-run-variant-case", case_of_variants),
    "saved variant": Place("eval-run-variant-save", saved_variant),
    "new optimisation": Place("evalset-optimise", address("/evals/weather/lookups/optimise/")),
    "optimisation": Place("optimisation", optimisation),
    "versions": Place("evalset-versions", address("/evals/weather/lookups/versions/")),
    "new evalset": Place("eval-new", address("/evals/new/")),
    "uploaded evalsets": Place("eval-upload", address("/evals/upload/")),
    "recorded case": Place("eval-record", of_session("/evals/record/?session={pk}")),
    "report": Place("eval-run", report_and_attempt),
    "compared runs": Place("eval-run-compare", compared_runs),
    "trend": Place("eval-trend", trend),
    "prices": Place("prices", address("/evals/prices/")),
}

NO_PAGES = {
    "agent-check", "app-menu", "import-offers", "query-completions", "session-completions", "state-value",
    "session-changes", "session-hints", "run-changes", "nested-events", "event-log", "spending",  # parts of pages
    "evalset-file", "eval-run-variant", "optimisation-variant",
    "event-json", "event-blob", "model-call-json", "eval-run-export", "session-export", "eval-case-export",  # data
    "sessions-csv", "runs-csv", "problems-csv", "artifacts-csv", "memory-csv", "evalsets-csv",
    "evalset-cases-csv", "evalset-runs-csv", "playground-runs-csv",
    "eval-compare-export",  # a file of its own, looked at in tests/evals
    "artifact-content", "artifact-there-content", "artifact-json", "artifact-of-session", "memory-add",
    "session-actions", "session-undo", "saved-view", "session-run", "run-cancel", "runs-cancel", "eval-run-cancel",
    "agent-settings", "pause-decide",
    "agent-restart",
    "import-start", "import-dismiss", "first-message", "session-call",
    "traces",  # redirects to the list of runs
    "playground-cancel", "playground-rename",
    "run-again",  # what forms send, answered by one of the pages
    "eval-run-baseline", "eval-run-note", "eval-attempt-note", "eval-run-resume", "eval-run-retry", "eval-run-again",
    "eval-run-confirm", "optimisation-cancel", "optimisation-resume",
    "eval-run-parallelism", "eval-attempt-cancel",
    "sign-in", "signed-in",  # ways to elsewhere
    "ready", "metrics", "mcp", "otlp-traces", "otlp-metrics", "otlp-logs", "span-json",  # for programs
}  # fmt: skip


def test_every_page_is_checked():
    rooms = (devui.urls, sessions_app.urls, evals_app.urls)
    routes = {
        pattern.name for room in rooms for pattern in room.urlpatterns if isinstance(pattern, URLPattern)
    }
    assert routes - NO_PAGES == {place.route for place in PLACES.values()}
    assert routes >= NO_PAGES


def test_every_page_but_the_palette_belongs_to_a_place_of_the_header():
    names = {name for place in page_context.list_places() for name in (place.name, *place.other_names)}
    patterns = [*devui.urls.urlpatterns, *sessions_app.urls.urlpatterns, *evals_app.urls.urlpatterns]
    first_segments = {
        pattern.name: str(pattern.pattern).partition("/")[0] or "agents"
        for pattern in patterns
        if isinstance(pattern, URLPattern)
    }
    pages = {place.route for place in PLACES.values()}
    assert {route for route in pages if first_segments[route] not in names} == {"devui-go"}


@pytest.fixture
def page(open_window: OpenWindow, server: Server) -> Page:
    """A tab in which nothing moves."""
    size = {"width": 1440, "height": 900}
    return open_window(server.url, viewport=size, color_scheme="light", reduced_motion="reduce").new_page()


def overflow(page: Page) -> list[str]:
    """Return what stands out of a narrow screen to the right, where the page would have to be scrolled."""
    page.set_viewport_size({"width": NARROW, "height": 800})
    if page.evaluate("document.documentElement.scrollWidth") <= NARROW:
        return []
    return [f"{page.url} is wider than {NARROW} px: {wide}" for wide in page.evaluate(WIDE, NARROW)]


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_page_is_accessible_in_both_themes_and_fits_narrow_screen(page: Page, place: Place):
    place.opened(page)
    assert resolve(urlsplit(page.url).path).url_name == place.route
    violation_list = violations(page, WCAG_RULES) + find_refused_controls(page)
    light = page.evaluate(PAPER)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(page.locator("body")).not_to_have_css("background-color", light)
    violation_list += violations(page, CONTRAST_RULES) + overflow(page)
    assert not violation_list, "\n".join(violation_list)


def test_planted_violation_is_detected(page: Page):
    page.goto("/sessions/")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    page.evaluate("document.querySelector('h1').style.color = '#e0e0e0'")
    expect(page.locator("h1")).to_have_css("color", "rgb(224, 224, 224)")
    assert {violation.split()[1] for violation in violations(page, WCAG_RULES)} == {
        "button-name",
        "color-contrast",
    }
    assert {violation.split()[1] for violation in violations(page, CONTRAST_RULES)} == {"color-contrast"}
