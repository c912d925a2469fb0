"""A program with an agent, and without our packages, that exports to a server of DevUI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from sessions_app.problems import session_checks
from sessions_app.search import indexing
from sessions_app.store.models import AgentSession, Event, Span
from tests.pages.html import parse
from tests.patience import PATIENCE_S
from tests.web import serve

SCRIPT = Path(__file__).with_name("foreign_agent.py")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/traces.md"
CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}


def run_program(address: str, *messages: str, **environment: str) -> str:
    """Run the program with an exporter, and return the id of its session."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ADK_", "DEVUI_"))
    }
    clean |= {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}", "PYTHONPATH": "", **environment}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *messages],
        env=clean,
        cwd=SCRIPT.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert "Failed to export" not in done.stderr, done.stderr
    return done.stdout.split()[-1]


def read_kinds() -> list[str]:
    return list(Event.objects.order_by("session", "seq").values_list("kind", flat=True))


def count_problems() -> int:
    """Index and check all events, as the background tasks do, and return the number of problems."""
    indexing.index_all()
    session_checks.check_all()
    return AgentSession.objects.get().problem_count


async def test_failing_tool_is_found_by_words_and_traced(web, store):
    from devui.asgi import application

    async with serve(application) as address:
        name = await sync_to_async(run_program, thread_sensitive=False)(
            address, "Where is parcel X123?", "And A7?", **CONTENT
        )
        session = await AgentSession.objects.aget()
        assert (session.session_id, session.app_name, session.error_count) == (name, "parcels", 1)
        listed = parse((await web.get("/sessions/", params={"q": 'is:traced "no such parcel"'})).content)
        assert "Where is parcel X123?" in listed.text
        page = parse((await web.get(f"/sessions/id/{session.pk}/")).content)
        for shown in ("received trace", "Where is parcel X123?", "no such parcel at the depot", "Lisbon"):
            assert shown in page.text
        assert "is read out of received traces and is read-only" in page.text
        event = await Event.objects.filter(kind="tool_result").order_by("seq").afirst()
        trace = parse((await web.get(f"/sessions/id/{session.pk}/events/{event.seq}/trace/")).content)
        assert "tool track_parcel" in trace.text
        assert "model scripted-1" in trace.text
        assert await sync_to_async(count_problems)() == 1
        listed = parse(
            (await web.get("/sessions/", params={"q": "is:traced depot tool:track_parcel"})).content
        )
        assert "Where is parcel X123?" in listed.text


@pytest.mark.parametrize(
    ("environment", "kinds"),
    [
        pytest.param(CONTENT, ["user", "tool_call", "tool_result", "agent"], id="content on spans"),
        pytest.param(
            {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY"},
            ["user", "tool_call", "tool_result", "agent"],
            id="content on logs",
        ),
        pytest.param(
            {"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
            ["user", "tool_call", "tool_result", "agent"],
            id="schema 1",
        ),
        pytest.param(
            {
                "ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1",
                "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
            },
            ["user", "tool_call", "tool_result", "agent"],
            id="schema 1, content on logs",
        ),
        pytest.param({}, ["control", "tool_call", "tool_result", "control"], id="no content"),
    ],
)
async def test_each_telemetry_schema_of_adk_is_read(web, store, environment, kinds):
    from devui.asgi import application

    async with serve(application) as address:
        await sync_to_async(run_program, thread_sensitive=False)(
            address, "Where is parcel X5?", OTEL_SERVICE_NAME="desk", **environment
        )
    assert await sync_to_async(read_kinds)() == kinds
    session = await AgentSession.objects.aget()
    assert (session.app_name, session.total_tokens) == ("desk", 50)
    assert await sync_to_async(Span.objects.filter(name="").count)() == 0


async def test_exception_of_a_tool_is_its_result(web, store):
    from devui.asgi import application

    async with serve(application) as address:
        await sync_to_async(run_program, thread_sensitive=False)(address, "Where is parcel XX5?", **CONTENT)
    result = await Event.objects.aget(kind="tool_result")
    assert re.search("ValueError: the depot is offline", result.data)


async def test_commands_of_the_documentation_send_traces(web, store, tmp_path):
    from devui.asgi import application

    section = DOCUMENT.read_text(encoding="utf-8").partition("## Receive traces of other programs")[2]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    (tmp_path / "parcels.py").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    async with serve(application) as address:
        script = commands.replace("127.0.0.1:8000", address).replace("python ", f"{sys.executable} ")
        await sync_to_async(run_commands, thread_sensitive=False)(script, tmp_path)
    session = await AgentSession.objects.aget()
    assert (session.app_name, session.last_seq, session.error_count) == ("parcel_desk", 4, 1)


def run_commands(script: str, folder: Path) -> None:
    """Run commands of the documentation in a shell."""
    subprocess.run(["bash", "-ec", script], cwd=folder, check=True, timeout=PATIENCE_S, capture_output=True)
