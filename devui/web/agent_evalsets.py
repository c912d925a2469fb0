"""The evalset files beside agents, each with its latest run, for the pages of agents."""

from __future__ import annotations

from dataclasses import dataclass

from evals_app.files import library
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import progress
from sessions_app.agents.folder import AgentsFolder


@dataclass(frozen=True, slots=True)
class AgentEvalset:
    """An evalset file. `run` is its newest run, if any."""

    app_name: str
    evalset_id: str
    run: EvalRun | None


def read_folder_evalsets(folder: AgentsFolder | None, *names: str) -> dict[str, list[AgentEvalset]]:
    """Return the evalset files of a folder's agents by agent. Takes three queries."""
    if folder is None or not names:
        return {}
    rows = EvalSet.objects.filter(app_name__in=names, gone=False)
    newest = progress.newest_runs(rows)
    runs = {(row.app_name, row.evalset_id): newest.get(row.pk) for row in rows.only("app_name", "evalset_id")}
    beside = {name: library.find_files(folder.app_folder(name)) for name in names}
    return {
        name: [AgentEvalset(name, key, runs.get((name, key))) for key in files]
        for name, files in beside.items()
    }
