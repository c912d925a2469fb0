"""Dialects: each server is detected by its own dialect, and installed packages add more."""

from __future__ import annotations

import pytest

from devui.remote.dialects import all_dialects, detect_dialect
from sessions_app.agents import remotes
from tests.plugin_packages import InstallPlugin
from tests.remote.conftest import serve_remote, start_run, the_session, wait_for_end
from tests.remote.synthetic_servers import Go, Rust

ACME = """
from devui.remote.dialects import Dialect

class AcmeDialect(Dialect):
    def matches(self, language, headers):
        return headers.get("x-acme") == "1"

    def convert_event(self, event):
        return {**event, "author": event["speaker"]}

ACME = AcmeDialect(names=("acme",), label="Acme")
"""


class Acme(Go):
    """A server that calls the author of an event its speaker."""

    headers = {"X-Acme": "1"}

    def spell(self, event):
        spelled = super().spell(event)
        return {"speaker": spelled.pop("author"), **spelled}


class BrokenRust(Rust):
    """A server with a part that is not what its fields promise."""

    def spell(self, event):
        return super().spell(event) | {"content": {"role": "model", "parts": [{"functionResponse": 3}]}}


@pytest.mark.parametrize(
    ("version", "headers", "label"),
    [
        ({"language": "python"}, {}, "Python"),
        ({"language": "Golang"}, {}, "Go"),
        ({"language": "java"}, {}, "Java"),
        ({"language": "TypeScript"}, {}, "JavaScript"),
        ({"language": "rust"}, {"server": "uvicorn"}, "Rust"),
        (None, {"server": "uvicorn"}, "Python"),
        (None, {"x-powered-by": "Express"}, "JavaScript"),
        ({"language": 3}, {}, ""),
        ({"language": "dart"}, {}, ""),
    ],
)
def test_dialect_is_detected_by_version_and_headers(version, headers, label):
    assert detect_dialect(version, headers).label == label


def test_server_of_unknown_language_keeps_its_name():
    assert detect_dialect({"language": "Dart"}, {}).language == "dart"


async def test_installed_dialect_converts_events(store, web, install_plugin: InstallPlugin):
    install_plugin("devui.dialects", "acme_dialects", ACME)
    async with serve_remote(Acme().app()):
        assert remotes.all_remotes()[0].kind == "ADK 0.5.0 for Acme"
        await web.post("/apps/clerk@far/users/ann/sessions", json={"sessionId": "s1"})
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
        assert run.status == "done", run.error
        session = (await web.get("/apps/clerk@far/users/ann/sessions/s1")).json()
        assert [event["author"] for event in session["events"]] == ["user", "clerk"]


@pytest.mark.parametrize("failure", ["1 / 0", "exit(3)"])
def test_dialect_that_raises_is_logged_and_skipped(failure, install_plugin: InstallPlugin, caplog):
    install_plugin("devui.dialects", "acme_dialects", ACME.replace('headers.get("x-acme") == "1"', failure))

    assert detect_dialect({"language": "go"}, {}).label == "Go"
    assert "The dialect 'Acme' failed" in caplog.text


def test_plugin_that_cannot_be_imported_leaves_the_other_dialects(install_plugin: InstallPlugin):
    install_plugin("devui.dialects", "acme_dialects", "raise RuntimeError")

    assert {dialect.label for dialect in all_dialects()} == {"Go", "Java", "JavaScript", "Python", "Rust"}


def test_dialect_without_names_is_omitted(install_plugin: InstallPlugin):
    install_plugin("devui.dialects", "acme_dialects", ACME.replace('("acme",)', "()"))

    assert {dialect.label for dialect in all_dialects()} == {"Go", "Java", "JavaScript", "Python", "Rust"}


async def test_event_that_its_dialect_cannot_convert_fails_the_run(store, web):
    async with serve_remote(BrokenRust().app()):
        await web.post("/apps/clerk@far/users/ann/sessions", json={"sessionId": "s1"})
        run = await wait_for_end(await start_run(web, (await the_session()).pk, "hello"))
        assert (run.status, run.error_type) == ("failed", "UpstreamFailed")
        assert "not one of Rust" in run.error
