"""URLs of the evals pages."""

from __future__ import annotations

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from sessions_app.http import LazyRoute


def page(route: str, view: str, name: str) -> LazyRoute:
    """Route to a view of this app, `MODULE.FUNCTION`, imported on demand."""
    return LazyRoute(route, f"evals_app.views.{view}", name)


urlpatterns = [
    page("evals/", "evalsets.index", "evals"),
    page("evals/evalsets.csv", "evalsets.csv_file", "evalsets-csv"),
    page("evals/runs/<str:run_id>/", "run_reports.run", "eval-run"),
    page("evals/runs/<str:run_id>/cancel/", "run_actions.cancel", "eval-run-cancel"),
    page("evals/runs/<str:run_id>/resume/", "run_actions.resume", "eval-run-resume"),
    page("evals/runs/<str:run_id>/retry/", "run_actions.retry", "eval-run-retry"),
    page("evals/runs/<str:run_id>/again/", "run_actions.repeat", "eval-run-again"),
    page("evals/runs/<str:run_id>/confirm/", "run_actions.confirm", "eval-run-confirm"),
    page("evals/runs/<str:run_id>/parallelism/", "run_actions.set_parallelism", "eval-run-parallelism"),
    page(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/cancel/",
        "run_actions.cancel_attempt",
        "eval-attempt-cancel",
    ),
    page(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/note/",
        "run_actions.note_attempt",
        "eval-attempt-note",
    ),
    page("evals/runs/<str:run_id>/note/", "run_actions.note_run", "eval-run-note"),
    page("evals/runs/<str:run_id>/baseline/", "run_actions.mark_baseline", "eval-run-baseline"),
    page("evals/runs/<str:run_id>/compare/", "run_comparison.compare", "eval-run-compare"),
    page("evals/runs/<str:run_id>/compare/export/", "run_comparison.export", "eval-compare-export"),
    page("evals/runs/<str:run_id>/case/<int:attempt>/export/", "run_reports.export_case", "eval-case-export"),
    page("evals/runs/<str:run_id>/export/<str:kind>/", "run_reports.export", "eval-run-export"),
    page("evals/prices/", "prices.prices", "prices"),
    page("evals/<seg:app_name>/<seg:evalset_id>/trend/", "trends.trend", "eval-trend"),
    page("evals/new/", "evalset_creation.new", "eval-new"),
    page("evals/upload/", "evalset_creation.upload", "eval-upload"),
    page("evals/record/", "evalset_creation.record", "eval-record"),
    page("evals/replay/<int:pk>/", "session_replays.replay", "session-replay"),
    page("evals/<seg:app_name>/<seg:evalset_id>/", "evalsets.evalset", "evalset"),
    page("evals/<seg:app_name>/<seg:evalset_id>/case/", "case_editor.edit", "eval-case"),
    page("evals/<seg:app_name>/<seg:evalset_id>/change/", "evalset_actions.change", "evalset-change"),
    page("evals/<seg:app_name>/<seg:evalset_id>/delete/", "evalset_actions.delete", "evalset-delete"),
    page("evals/<seg:app_name>/<seg:evalset_id>/file/", "evalset_actions.file", "evalset-file"),
    page("evals/<seg:app_name>/<seg:evalset_id>/plan/", "evalsets.plan", "evalset-plan"),
    page("evals/<seg:app_name>/<seg:evalset_id>/versions/", "versions.index", "evalset-versions"),
]
