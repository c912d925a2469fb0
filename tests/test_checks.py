"""System checks report wrong settings with a hint."""

from __future__ import annotations

from django.apps import apps
from django.core.checks import run_checks

from devui import embed
from sessions_app.agents.folder import configured_folder


def own_findings() -> dict[str, str]:
    """Return DevUI's findings: id to hint."""
    messages = run_checks(databases=["default"])
    return {message.id: message.hint for message in messages if message.id.startswith("devui.")}


def test_devuis_own_settings_pass():
    assert not {name for name in own_findings() if name.startswith("devui.E")}
    assert "devui.W003" not in own_findings()


def test_deployment_checks_have_no_warnings():
    messages = run_checks(tags=["security"], include_deployment_checks=True)
    assert not [message for message in messages if not message.is_silenced()]


def test_sqlite_that_locks_late_is_warned_of(settings, monkeypatch):
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": "x"}
    monkeypatch.setitem(settings.DATABASES, "default", database)
    assert "IMMEDIATE" in own_findings()["devui.W001"]
    assert "WAL" in own_findings()["devui.W002"]


def test_postgresql_is_not(settings, monkeypatch):
    monkeypatch.setitem(
        settings.DATABASES, "default", {"ENGINE": "django.db.backends.postgresql", "NAME": "x"}
    )
    assert not {"devui.W001", "devui.W002"} & own_findings().keys()


def test_a_server_that_answers_to_any_name_is_warned_of(settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert "DEVUI_ALLOWED_HOSTS" in own_findings()["devui.W003"]


def test_a_foreign_project_that_names_no_agents_folder_has_no_agents(settings):
    """Not the packages of its own working folder."""
    del settings.DEVUI_AGENTS_DIR
    apps.get_app_config("devui").ready()
    assert configured_folder() is None


def test_an_origin_pattern_that_is_none_is_refused(settings):
    settings.DEVUI_ALLOW_ORIGINS = ["regex:("]
    assert "regular expression" in own_findings()["devui.E001"]


def test_a_project_without_the_guards_is_refused(settings):
    settings.MIDDLEWARE = [name for name in embed.MIDDLEWARE if "KnownHost" not in name]
    assert "embed.MIDDLEWARE" in own_findings()["devui.E002"]


def test_a_project_without_the_context_processors_is_refused(settings):
    settings.TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": {}}]
    assert "CONTEXT_PROCESSORS" in own_findings()["devui.E003"]
