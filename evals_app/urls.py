"""URLs of the evals pages."""

from __future__ import annotations

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from evals_app.roles import (
    CANCEL_EVALS,
    CANCEL_OPTIMISATION,
    DELETE_EVALSET,
    DELETE_PLAYGROUND_RUN,
    EDIT_EVALSET,
    EDIT_PRICES,
    EXPORT_EVALS,
    EXPORT_EVALSETS,
    OPTIMISE,
    ORDER_OPTIMISATION,
    ORDER_VARIANTS,
    READ_AGENT_FILES,
    RENAME_PLAYGROUND_RUN,
    REVIEWED_EVALSET,
    RUN_EVALS,
    SAVE_VARIANT,
    TRY_MODEL_CALL,
    WRITE_NOTE,
)
from sessions_app.roles import CANCEL, READ, AccessRule
from sessions_app.routes import Route

PLAYGROUND_PATH = "sessions/id/<int:pk>/model-calls/<int:call>/try/"
OPTIMISATION_PATH = "evals/optimisations/<str:optimisation_id>/"
RUN_PATH, SET_PATH = "evals/runs/<str:run_id>/", "evals/<seg:app_name>/<seg:evalset_id>/"


def page(route: str, view: str, name: str, **rules: AccessRule) -> Route:
    """Route to a view of this app, `MODULE.FUNCTION`, imported on demand."""
    return Route(route, f"evals_app.views.{view}", name, **rules)


urlpatterns = [
    page("evals/", "evalsets.index", "evals", get=READ),
    page("evals/evalsets.csv", "evalsets.csv_file", "evalsets-csv", get=EXPORT_EVALSETS),
    page(RUN_PATH, "run_reports.run", "eval-run", get=READ),
    page(RUN_PATH + "cancel/", "run_actions.cancel", "eval-run-cancel", post=CANCEL_EVALS),
    page(RUN_PATH + "resume/", "run_actions.resume", "eval-run-resume", post=RUN_EVALS),
    page(RUN_PATH + "retry/", "run_actions.retry", "eval-run-retry", post=RUN_EVALS),
    page(RUN_PATH + "again/", "run_actions.repeat", "eval-run-again", post=RUN_EVALS),
    page(RUN_PATH + "confirm/", "run_actions.confirm", "eval-run-confirm", post=RUN_EVALS),
    page(RUN_PATH + "parallelism/", "run_actions.set_parallelism", "eval-run-parallelism", post=RUN_EVALS),
    page(
        RUN_PATH + "attempts/<int:attempt>/cancel/",
        "run_actions.cancel_attempt",
        "eval-attempt-cancel",
        post=CANCEL_EVALS,
    ),
    page(
        RUN_PATH + "attempts/<int:attempt>/note/",
        "run_actions.note_attempt",
        "eval-attempt-note",
        post=WRITE_NOTE,
    ),
    page(RUN_PATH + "note/", "run_actions.note_run", "eval-run-note", post=WRITE_NOTE),
    page(RUN_PATH + "baseline/", "run_actions.mark_baseline", "eval-run-baseline", post=WRITE_NOTE),
    page(RUN_PATH + "compare/", "run_comparison.compare", "eval-run-compare", get=READ),
    page(RUN_PATH + "compare/export/", "run_comparison.export", "eval-compare-export", get=EXPORT_EVALS),
    page(
        RUN_PATH + "case/<int:attempt>/export/",
        "run_reports.export_case",
        "eval-case-export",
        get=EXPORT_EVALS,
    ),
    page(RUN_PATH + "variants/<int:position>/", "variant_case.show", "eval-run-variant-case", get=READ),
    page(RUN_PATH + "variant/", "variants.download", "eval-run-variant", get=EXPORT_EVALS),
    page(
        RUN_PATH + "variant/save/",
        "variant_saving.save",
        "eval-run-variant-save",
        get=READ_AGENT_FILES,
        post=SAVE_VARIANT,
    ),
    page(RUN_PATH + "export/<str:kind>/", "run_reports.export", "eval-run-export", get=EXPORT_EVALS),
    page(OPTIMISATION_PATH, "optimisations.show", "optimisation", get=READ),
    page(
        OPTIMISATION_PATH + "cancel/", "optimisations.cancel", "optimisation-cancel", post=CANCEL_OPTIMISATION
    ),
    page(OPTIMISATION_PATH + "resume/", "optimisations.resume", "optimisation-resume", post=OPTIMISE),
    page(OPTIMISATION_PATH + "variant/", "optimisations.download", "optimisation-variant", get=EXPORT_EVALS),
    page("agents/<seg:app_name>/instructions/", "instructions.history", "agent-instructions", get=READ),
    page("evals/prices/", "prices.prices", "prices", get=READ, post=EDIT_PRICES),
    page(SET_PATH + "trend/", "trends.trend", "eval-trend", get=READ),
    page("evals/new/", "evalset_creation.new", "eval-new", get=READ, post=EDIT_EVALSET.with_app_field("app")),
    page(
        "evals/upload/",
        "evalset_creation.upload",
        "eval-upload",
        get=READ,
        post=EDIT_EVALSET.with_app_field("app"),
    ),
    page("evals/record/", "case_recording.record", "eval-record", get=READ, post=EDIT_EVALSET),
    page("evals/replay/<int:pk>/", "session_replays.replay", "session-replay", get=READ, post=RUN_EVALS),
    page(
        "evals/replay/<int:pk>/variants/",
        "session_variants.edit",
        "session-variants",
        get=READ,
        post=ORDER_VARIANTS,
    ),
    page(SET_PATH, "evalsets.evalset", "evalset", get=READ, post=RUN_EVALS),
    page(SET_PATH + "cases.csv", "evalsets.cases_csv_file", "evalset-cases-csv", get=EXPORT_EVALSETS),
    page(SET_PATH + "runs.csv", "evalsets.runs_csv_file", "evalset-runs-csv", get=EXPORT_EVALS),
    page(SET_PATH + "case/", "case_editor.edit", "eval-case", get=READ, post=REVIEWED_EVALSET),
    page(SET_PATH + "change/", "evalset_actions.change", "evalset-change", get=READ, post=REVIEWED_EVALSET),
    page(SET_PATH + "delete/", "evalset_actions.delete", "evalset-delete", get=READ, post=DELETE_EVALSET),
    page(SET_PATH + "file/", "evalset_actions.file", "evalset-file", get=EXPORT_EVALSETS),
    page(
        SET_PATH + "plan/", "evalsets.plan", "evalset-plan", get=READ, post=READ
    ),  # shows what a run would do
    page(SET_PATH + "variants/", "variants.edit", "evalset-variants", get=READ, post=ORDER_VARIANTS),
    page(SET_PATH + "optimise/", "optimisations.edit", "evalset-optimise", get=READ, post=ORDER_OPTIMISATION),
    page(PLAYGROUND_PATH, "playground.edit", "playground", get=READ, post=TRY_MODEL_CALL),
    page(PLAYGROUND_PATH + "<int:run>/", "playground.show", "playground-run", get=READ),
    page(PLAYGROUND_PATH + "<int:run>/cancel/", "playground.cancel", "playground-cancel", post=CANCEL),
    page(
        PLAYGROUND_PATH + "<int:run>/rename/",
        "playground.rename",
        "playground-rename",
        post=RENAME_PLAYGROUND_RUN,
    ),
    page(
        PLAYGROUND_PATH + "<int:run>/delete/",
        "playground.delete",
        "playground-delete",
        get=READ,
        post=DELETE_PLAYGROUND_RUN,
    ),
    page("evals/playground/", "playground_list.index", "playground-runs", get=READ),
    page("evals/playground.csv", "playground_list.csv_file", "playground-runs-csv", get=EXPORT_EVALS),
    page(SET_PATH + "versions/", "versions.index", "evalset-versions", get=READ),
]
