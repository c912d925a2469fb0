"""Overhead of a run over ADK's own, delay until its text is visible, and a message in a session of 10,000 events.

The agents record times (`made …`) with the clock of this machine, which the page and the client use, too.
`adk api_server` runs the same agents in the same run; the long session's peer is ADK's Runner over
InMemorySessionService, without a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from django.db import connection
from playwright.sync_api import Browser, Page

from benchmarks.chromium import chromium, new_page
from benchmarks.figures import Figure
from benchmarks.serving import OURS, ROOT, server
from benchmarks.stores import FOLDER, USER, long_session, ours
from sessions_app.store.models import AgentSession

ADK_API = (sys.executable, "-m", "google.adk.cli", "api_server", "--session_service_uri", "memory://")
APP = "runner"
EVENTS = 200
LONG = 10_000
TURNS = 9
RESTS_S = {2.0: "", 0.0: ", sent as the answer comes"}
"""Seconds between an answer and the next message, with a label: a person reads, a program may not."""
PATIENCE_MS = 120_000

AGENT = """import asyncio
import time

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types


def made():
    return types.Content(role="model", parts=[types.Part(text=f"made {time.time():.6f} ")])


class Model(BaseLlm):
    model: str = "timed"

    async def generate_content_async(self, llm_request, stream=False):
        said = made()
        if stream:
            yield LlmResponse(content=said, partial=True)
            await asyncio.sleep(0.5)
        yield LlmResponse(content=said)


class Teller(BaseAgent):
    async def _run_async_impl(self, context):
        for number in range(%d):
            part = types.Part(text=f"event {number}")
            content = types.Content(role="model", parts=[part])
            yield Event(author=self.name, invocation_id=context.invocation_id, content=content)
"""
ROOTS = {APP: 'LlmAgent(name="speaker", model=Model())', "teller": 'Teller(name="teller")'}

IN_MEMORY = """import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types
from benchmarks.stores import event
from runner.agent import root_agent

async def main(events, turns, rest):
    service = InMemorySessionService()
    session = await service.create_session(app_name="runner", user_id="ann", session_id="long")
    for number in range(1, events + 1):
        made = event(number)
        made.author = "user" if number % 4 == 0 else "speaker"
        await service.append_event(session, made)
    runner = Runner(app_name="runner", agent=root_agent, session_service=service)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    for _ in range(turns):
        time.sleep(rest)
        start = time.time()
        async for found in runner.run_async(user_id="ann", session_id="long", new_message=message):
            if found.content and "made" in found.content.parts[0].text:
                print("took", float(found.content.parts[0].text.split()[1]) - start)

asyncio.run(main(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
"""

WATCH = """([pattern, count]) => {
    window.seen = null;
    const clock = () => performance.timeOrigin + performance.now();
    const press = (event) => event.key === "Enter" && (window.pressed = clock());
    document.addEventListener("keydown", press, { capture: true, once: true });
    const shown = document.getElementById("column-timeline");
    const find = () => {
        const found = shown.innerText.match(new RegExp(pattern, "g")) ?? [];
        if (found.length < count) return;
        watching.disconnect();
        requestAnimationFrame(() => {
            const painted = new MessageChannel();
            painted.port1.onmessage = () => {
                window.seen = [window.pressed, clock(), found.at(-1)];
            };
            painted.port2.postMessage(0);
        });
    };
    const watching = new MutationObserver(find);
    watching.observe(shown, { childList: true, subtree: true, characterData: true });
}"""
"""Notes when Enter was pressed, when a frame had shown so many matches of a pattern, in milliseconds, and the last one.

The page notes both: what the browser is told, and what it is asked before, takes as long as they lie apart.
"""


def agents() -> Path:
    """Write the agents; return their folder."""
    folder = FOLDER / "run-agents"
    for name, root in ROOTS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("from . import agent\n")
        (folder / name / "agent.py").write_text(f"{AGENT % EVENTS}\n\nroot_agent = {root}\n")
    return folder


def body(app: str, session: str, *, streaming: bool = False) -> dict[str, object]:
    """Return the body of ADK's own path for a run."""
    message = {"role": "user", "parts": [{"text": "go"}]}
    ids = {"appName": app, "userId": USER, "sessionId": session}
    return {**ids, "newMessage": message, "streaming": streaming}


def run_seconds(address: str, app: str, turns: int) -> float:
    """Return the median seconds of a whole run over ADK's own path, each in its own session."""
    times = []
    with httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
        for turn in range(turns + 1):
            client.post(
                f"/apps/{app}/users/{USER}/sessions", json={"sessionId": f"s{turn}"}
            ).raise_for_status()
            start = time.perf_counter()
            client.post("/run", json=body(app, f"s{turn}")).raise_for_status()
            times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def first_token(address: str) -> float:
    """Return the median milliseconds from a streamed token to the first byte of its frame at a client."""
    delays_ms = []
    with httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
        client.post(f"/apps/{APP}/users/{USER}/sessions", json={"sessionId": "tokens"}).raise_for_status()
        for _ in range(TURNS + 1):
            with client.stream("POST", "/run_sse", json=body(APP, "tokens", streaming=True)) as answer:
                lines = [(line, time.time()) for line in answer.iter_lines()]
            sent_at, when = next(
                (float(match[1]), when)
                for line, when in lines
                if (match := re.search(r"made (\d+\.\d+)", line))
            )
            delays_ms.append((when - sent_at) * 1000)
    return statistics.median(delays_ms[1:])


def send(page: Page, text: str, pattern: str) -> tuple[float, float, str]:
    """Send a message with the console.

    Return the time of Enter, the time of a new match of a pattern, in milliseconds, and that match.
    """
    before = len(re.findall(pattern, page.locator("#column-timeline").inner_text()))
    page.locator("#message").fill(text)
    page.evaluate(WATCH, [pattern, before + 1])
    page.locator("#message").press("Enter")
    page.wait_for_function("() => window.seen", timeout=PATIENCE_MS)
    pressed, when, match = page.evaluate("window.seen")
    return float(pressed), float(when), str(match)


def rest(page: Page) -> None:
    """Wait until no run is active."""
    page.locator(".run:not(.run-ended)").first.wait_for(state="detached", timeout=PATIENCE_MS)


def token_delay(browser: Browser, address: str) -> float:
    """Return the median milliseconds from a streamed token to the frame that shows it on the session's page."""
    with open_live_page(browser, address, "tokens") as page:
        delays_ms = []
        for turn in range(TURNS + 1):
            _, when, text = send(page, f"turn {turn}", r"made \d+\.\d+")
            delays_ms.append(when - float(text.split()[1]) * 1000)
            rest(page)
    return statistics.median(delays_ms[1:])


def message_delay(browser: Browser, address: str) -> float:
    """Return the median seconds from Enter to the frame that shows the message, at the end of a long session.

    It is shown with its run first, then as the event that the agent's process stores.
    """
    with open_live_page(browser, address, "long") as page:
        seconds = []
        for turn in range(TURNS + 1):
            pressed, when, _ = send(page, f"asked {turn} times", rf"asked {turn} times")
            seconds.append((when - pressed) / 1000)
            rest(page)
    return statistics.median(seconds[1:])


@contextlib.contextmanager
def open_live_page(browser: Browser, address: str, name: str) -> Iterator[Page]:
    """Open the live page of a session."""
    page = new_page(browser)
    page.goto(f"{address}/sessions/{APP}/{USER}/{name}/")
    page.locator("[data-live=live]").wait_for(timeout=PATIENCE_MS)
    yield page
    page.close()


def model_delay(address: str, pk: int, rest_s: float) -> float:
    """Return the median seconds from a message in the long session to its model call, after a first turn.

    Args:
        rest_s: seconds between an answer and the next message.
    """
    seconds = []
    with httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
        for _ in range(TURNS + 1):
            time.sleep(rest_s)
            start = time.time()
            response = client.post("/api/v1/runs", json={"session": pk, "message": "go"})
            run = response.raise_for_status().json()["id"]
            while client.get(f"/api/v1/runs/{run}").json()["status"] in {"queued", "running"}:
                time.sleep(0.05)
            last = client.get(f"/api/v1/sessions/{pk}").json()["events"]
            events = client.get(f"/api/v1/sessions/{pk}/events", params={"after": last - 1}).text
            match = re.search(r"made (\d+\.\d+)", events)
            if match is None:
                raise RuntimeError(f"The run left no answer: {events[:500]}")
            seconds.append(float(match[1]) - start)
    return statistics.median(seconds[1:])


def adk_model_delay(folder: Path, rest_s: float) -> float:
    """Return the seconds to the model call of ADK's Runner in an equally long session over InMemorySessionService."""
    done = subprocess.run(
        [sys.executable, "-c", IN_MEMORY, str(folder), str(LONG), str(TURNS), str(rest_s)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return statistics.median(
        float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("took")
    )


def main() -> None:
    """Measure and print."""
    asyncio.run(ours().create_session(app_name=APP, user_id=USER, session_id="tokens"))
    long_session("long", LONG, agent="speaker")
    AgentSession.objects.filter(session_id="long").update(app_name=APP)
    pk = AgentSession.objects.get(session_id="long").pk
    connection.close()
    folder = agents()
    with server(OURS, agents=folder) as (address, _), chromium() as browser:
        own_run = run_seconds(address, "teller", TURNS)
        own_token = token_delay(browser, address)
        own_message = message_delay(browser, address)
        own_model = {rest_s: model_delay(address, pk, rest_s) for rest_s in RESTS_S}
    with server(ADK_API, "/list-apps", agents=folder) as (address, _):
        their_run = run_seconds(address, "teller", TURNS)
        their_token = first_token(address)
    their_model = {rest_s: adk_model_delay(folder, rest_s) for rest_s in RESTS_S}
    overhead = (own_run - their_run) / EVENTS * 1000
    print(Figure("run, on top of ADK's, an event", "ms", overhead, 10).as_line())
    peer_name = "adk api_server, in memory"
    what = f"run of {EVENTS} events by ADK's own path"
    print(Figure(what, "s", own_run, None, their_run, peer_name).as_line())
    what = "first streamed token on the screen"
    print(Figure(what, "ms", own_token, 100, their_token, "adk api_server, at its client").as_line())
    what = f"message on {LONG:,} events"
    print(Figure(f"{what}, on the screen", "s", own_message, 0.2).as_line())
    peer_name = "ADK's Runner over InMemorySessionService"
    for rest_s, when in RESTS_S.items():
        own, their = own_model[rest_s], their_model[rest_s]
        print(Figure(f"{what}, at the model{when}", "s", own, 1.2 * their, their, peer_name).as_line())


if __name__ == "__main__":
    main()
