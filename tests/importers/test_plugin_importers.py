"""Importers of installed packages: detected like DevUI's own, checked like foreign files, named when they fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessions_app.errors import BadInput
from sessions_app.models import AgentSession, Event, ImportSource, StateChange
from sessions_app.transfer.readers import SourceFilter
from sessions_app.transfer.writers import import_location
from tests.importers import stores
from tests.plugin_packages import InstallPlugin

pytestmark = pytest.mark.usefixtures("store")

FILES = """
import json
from sessions_app.transfer.readers.importer import Importer

class Acme(Importer):
    def matches_file(self, path, head):
        return head.startswith(b"ACME")

    def read_sessions(self, path):
        return json.loads(path.read_text().removeprefix("ACME"))

ACME = Acme(name="Acme logs")
"""

SOURCE = """
from sessions_app.transfer.readers.importer import Importer
from sessions_app.transfer.readers.records import *
from sessions_app.transfer.readers.records import Owner

OWNER = Owner("weather", "ann", "s1")

def event(n, **fields):
    return StoredEvent(OWNER, {"id": f"e{n}", "author": "user", "timestamp": 1_767_225_600 + n, **fields})

class AcmeSource:
    location, format, remarks = "elsewhere", "another", ["a remark"]
    def sessions(self):
        yield StoredSession(OWNER, 1_767_225_600.0, 1_767_225_700.0)
        yield StoredSession(Owner("weather", "ann", 3), 0.0, 0.0)
        yield "no session"
    def states(self):
        yield StoredState(OWNER, {"city": "Oslo"})
        yield StoredState(OWNER, {"city": {1, 2}})
    def shared_states(self):
        yield SharedState("weather", "ann", {"name": "Ann"}, "never")
    def events(self, only=None):
        EVENTS
    def close(self):
        raise RuntimeError

class Acme(Importer):
    def matches_file(self, path, head):
        return head.startswith(b"ACME")
    def open_file(self, path, source_filter):
        return AcmeSource()

ACME = Acme(name="Acme logs")
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A file of Acme's with two sessions, the second of another app."""
    sessions = [
        {
            "appName": app,
            "userId": "ann",
            "id": f"s{n}",
            "events": [stores.an_event(n)],
            "state": {"key": "v"},
        }
        for n, app in enumerate(("weather", "news"), 1)
    ]
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "a.log"
    path.write_text("ACME" + json.dumps(sessions))
    return path


def test_installed_importer_reads_a_file(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES)

    report = import_location(str(log))

    assert (report.format, report.created, report.events) == ("Acme logs", 2, 2)
    assert report.is_complete
    assert ImportSource.objects.get().format == "Acme logs"
    assert import_location(str(log)).unchanged == 2


def test_filters_apply_to_installed_importers(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES)

    assert import_location(str(log), source_filter=SourceFilter(app_name="news")).created == 1


def test_folder_with_files_of_an_installed_importer(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES)

    report = import_location(str(log.parent))

    assert [line.split(", 0 ")[0] for line in report.files] == ["a.log: Acme logs, 2 new session(s)"]


@pytest.mark.parametrize("failure", ["OSError: disk gone", "SystemExit: 3"])
def test_importer_that_raises_while_reading_is_named(failure, log: Path, install_plugin: InstallPlugin):
    name, _, text = failure.partition(": ")
    events = f"yield event(1); yield event(2); raise {name}({text!r})"
    install_plugin("devui.importers", "acme_importers", SOURCE.replace("EVENTS", events))

    report = import_location(str(log))

    assert f"the importer 'Acme logs' failed, the rest was not read: {failure}" in list(report.unread)
    assert (report.created, report.events) == (1, 2)
    assert not StateChange.objects.exists()  # the state of an incomplete session is not set
    assert ImportSource.objects.get().read_at is None


def test_importer_that_raises_when_opening_is_named(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES.replace("return json.loads", "1 / 0 #"))

    with pytest.raises(BadInput, match="The importer 'Acme logs' failed: ZeroDivisionError"):
        import_location(str(log))
    report = import_location(str(log.parent))
    assert "The importer 'Acme logs' failed: ZeroDivisionError" in next(iter(report.files))


@pytest.mark.parametrize(
    ("call", "failure"), [("head.missing", "AttributeError"), ("__import__('sys').exit", "SystemExit")]
)
def test_importer_that_raises_in_detection_leaves_the_others(
    call, failure, log: Path, install_plugin: InstallPlugin
):
    install_plugin("devui.importers", "acme_importers", FILES.replace("head.startswith", call))

    report = import_location(str(stores.JSON))

    assert (report.format, report.created) == ("session JSON of adk web", 3)
    assert next(iter(report.remarks)).startswith(f"The importer 'Acme logs' failed: {failure}")


def test_invalid_records_are_reported_and_left_out(log: Path, install_plugin: InstallPlugin):
    events = """
        yield event(1, actions={"state_delta": {"key": "x"}}, unknown_field=1)
        yield event(2, content=b"bytes")
        yield event(3, timestamp="tomorrow")
        yield StoredEvent(Owner(1, 2, 3), {})
        yield None
        yield event(4, actions="none")"""
    install_plugin("devui.importers", "acme_importers", SOURCE.replace("EVENTS", events))

    report = import_location(str(log))

    assert report.location == str(log)
    assert (report.created, report.events) == (1, 2)
    assert list(report.remarks) == ["a remark"]
    assert [line.partition(":")[0] for line in report.unread] == [
        "session 2",
        "session 3",
        "event 2",
        "event 3",
        "event 4",
        "event 5",
        "state 2",
        "shared state 1",
    ]
    assert AgentSession.objects.get().last_seq == 2
    changes = StateChange.objects.filter(scope="session").values_list("seq", "key", "value", "removed")
    assert set(changes) == {(1, "key", '"x"', False), (0, "city", '"Oslo"', False), (0, "key", None, True)}


def test_credentials_of_installed_importers_are_redacted(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES)
    credential = json.dumps({"authType": "apiKey", "apiKey": "sk-1234567890abcdef"})
    log.write_text(log.read_text().replace('"key": "v"', f'"auth": {credential}'))

    import_location(str(log))

    assert StateChange.objects.exists()
    assert "sk-1234567890abcdef" not in "".join(
        [*StateChange.objects.values_list("value", flat=True), *Event.objects.values_list("data", flat=True)]
    )
