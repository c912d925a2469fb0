"""URLs of the evals pages."""

from django.urls import path

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from evals_app.views import (
    case_editor,
    evalset_actions,
    evalset_creation,
    evalsets,
    notes,
    run_actions,
    run_comparison,
    run_reports,
    session_replays,
    trends,
    versions,
)

urlpatterns = [
    path("evals/", evalsets.index, name="evals"),
    path("evals/runs/<str:run_id>/", run_reports.run, name="eval-run"),
    path("evals/runs/<str:run_id>/cancel/", run_actions.cancel, name="eval-run-cancel"),
    path("evals/runs/<str:run_id>/resume/", run_actions.resume, name="eval-run-resume"),
    path("evals/runs/<str:run_id>/retry/", run_actions.retry, name="eval-run-retry"),
    path("evals/runs/<str:run_id>/again/", run_actions.repeat, name="eval-run-again"),
    path("evals/runs/<str:run_id>/parallelism/", run_actions.set_parallelism, name="eval-run-parallelism"),
    path(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/cancel/",
        run_actions.cancel_attempt,
        name="eval-attempt-cancel",
    ),
    path(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/note/", notes.note_attempt, name="eval-attempt-note"
    ),
    path("evals/runs/<str:run_id>/note/", notes.note_run, name="eval-run-note"),
    path("evals/runs/<str:run_id>/baseline/", notes.mark_baseline, name="eval-run-baseline"),
    path("evals/runs/<str:run_id>/compare/", run_comparison.compare, name="eval-run-compare"),
    path("evals/runs/<str:run_id>/export/<str:kind>/", run_reports.export, name="eval-run-export"),
    path("evals/prices/", trends.prices, name="eval-prices"),
    path("evals/<seg:app_name>/<seg:evalset_id>/trend/", trends.trend, name="eval-trend"),
    path("evals/new/", evalset_creation.new, name="eval-new"),
    path("evals/upload/", evalset_creation.upload, name="eval-upload"),
    path("evals/record/", evalset_creation.record, name="eval-record"),
    path("evals/replay/<int:pk>/", session_replays.replay, name="session-replay"),
    path("evals/<seg:app_name>/<seg:evalset_id>/", evalsets.evalset, name="evalset"),
    path("evals/<seg:app_name>/<seg:evalset_id>/case/", case_editor.edit, name="eval-case"),
    path("evals/<seg:app_name>/<seg:evalset_id>/change/", evalset_actions.change, name="evalset-change"),
    path("evals/<seg:app_name>/<seg:evalset_id>/delete/", evalset_actions.delete, name="evalset-delete"),
    path("evals/<seg:app_name>/<seg:evalset_id>/file/", evalset_actions.file, name="evalset-file"),
    path("evals/<seg:app_name>/<seg:evalset_id>/versions/", versions.index, name="evalset-versions"),
]
