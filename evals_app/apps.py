"""Configuration of the evals app.

Imports are deferred until they are used, because every runtime and every script with the store loads this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig

from sessions_app.quotas.active_runs import active_run_finders
from sessions_app.sessions.eval_attempts import attempt_finders
from sessions_app.transfer.folder_importer import FolderImporter, folder_importers

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from sessions_app.sessions.eval_attempts import AttemptLink
    from sessions_app.store.models import AgentSession
    from sessions_app.transfer.writers import ImportReport


class EvalsConfig(AppConfig):
    """Evalsets, eval runs, their attempts and metric results."""

    name = "evals_app"
    verbose_name = "Evals"

    def ready(self) -> None:
        """Register what the app adds: the importer of ADK's eval results in agents' folders, active runs, attempts."""
        folder_importers.append(FolderImporter("eval results", _find_sources, _import_data))
        active_run_finders.append(_active_runs)
        active_run_finders.append(_active_playground_runs)
        attempt_finders.append(_find_attempt)


def _active_runs() -> QuerySet[Any]:
    from evals_app.models import EvalRun

    runs = EvalRun.objects.filter(status__in=EvalRun.ACTIVE)
    return runs.order_by().values_list("person", "app_name")


def _active_playground_runs() -> QuerySet[Any]:
    from evals_app.playground.runs import find_active_runs

    return find_active_runs()


def _find_attempt(session: AgentSession) -> AttemptLink | None:
    from evals_app.runs.session_attempts import find_attempt

    return find_attempt(session)


def _find_sources(agent_folder: Path) -> dict[str, str]:
    from evals_app.runs import adk_imports as imports

    return imports.fingerprints(agent_folder)


def _import_data(app_name: str, agent_folder: Path, report: ImportReport) -> None:
    from evals_app.runs import adk_imports as imports

    imports.import_results(app_name, agent_folder, report)
