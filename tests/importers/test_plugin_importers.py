"""Importers of installed packages: detected like DevUI's own, read like foreign files, named when they fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessions_app.store.errors import BadInput
from sessions_app.store.models import Event, ImportSource, StateChange
from sessions_app.transfer.readers.documents import NO_SESSION
from sessions_app.transfer.readers.records import SourceFilter
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


def test_importer_that_raises_when_opening_is_named(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES.replace("return json.loads", "1 / 0 #"))

    with pytest.raises(BadInput, match="The importer 'Acme logs' failed: ZeroDivisionError"):
        import_location(str(log))


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


def test_values_of_installed_importers_are_stored_as_json(log: Path, install_plugin: InstallPlugin):
    read = """
        event = {"id": "e1", "author": "user", "timestamp": "tomorrow", "content": b"bytes", "unknown": {1, 2}}
        session = {"appName": "weather", "userId": "ann", "id": "s1", "events": [event, None]}
        return [{**session, "state": {"city": {"Oslo"}}}, {**session, "id": 3}, "no session"]
    """
    code = FILES.replace('return json.loads(path.read_text().removeprefix("ACME"))', read.strip())
    install_plugin("devui.importers", "acme_importers", code)

    report = import_location(str(log))

    assert (report.created, report.events) == (1, 1)
    assert list(report.unread) == [
        *(f"entry {number}: {NO_SESSION}" for number in (2, 3)),
        "event 2 of weather/ann/s1: it is a NoneType, not an event",
    ]
    unknown = json.loads(Event.objects.get().data)["customMetadata"]["devui_unknown"]
    assert unknown == {"timestamp": "tomorrow", "content": "Ynl0ZXM="}
    assert StateChange.objects.get().value == '["Oslo"]'


def test_credentials_of_installed_importers_are_redacted(log: Path, install_plugin: InstallPlugin):
    install_plugin("devui.importers", "acme_importers", FILES)
    credential = json.dumps({"authType": "apiKey", "apiKey": "sk-1234567890abcdef"})
    log.write_text(log.read_text().replace('"key": "v"', f'"auth": {credential}'))

    import_location(str(log))

    assert StateChange.objects.exists()
    assert "sk-1234567890abcdef" not in "".join(
        [*StateChange.objects.values_list("value", flat=True), *Event.objects.values_list("data", flat=True)]
    )
