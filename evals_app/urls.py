"""Pages of the evals room."""

from django.urls import path

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from evals_app import views

urlpatterns = [
    path("evals/", views.index, name="evals"),
    path("evals/runs/<str:run_id>/", views.run, name="eval-run"),
    path("evals/runs/<str:run_id>/cancel/", views.cancel, name="eval-run-cancel"),
    path("evals/runs/<str:run_id>/resume/", views.resume, name="eval-run-resume"),
    path("evals/runs/<str:run_id>/retry/", views.retry, name="eval-run-retry"),
    path("evals/runs/<str:run_id>/again/", views.repeat, name="eval-run-again"),
    path("evals/runs/<str:run_id>/parallelism/", views.set_parallelism, name="eval-run-parallelism"),
    path(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/cancel/",
        views.cancel_attempt,
        name="eval-attempt-cancel",
    ),
    path(
        "evals/runs/<str:run_id>/attempts/<int:attempt>/note/", views.note_attempt, name="eval-attempt-note"
    ),
    path("evals/runs/<str:run_id>/note/", views.note_run, name="eval-run-note"),
    path("evals/runs/<str:run_id>/baseline/", views.mark_baseline, name="eval-run-baseline"),
    path("evals/runs/<str:run_id>/compare/", views.compare, name="eval-run-compare"),
    path("evals/runs/<str:run_id>/export/<str:kind>/", views.export, name="eval-run-export"),
    path("evals/prices/", views.prices, name="eval-prices"),
    path("evals/<seg:app_name>/<seg:evalset_id>/trend/", views.trend, name="eval-trend"),
    path("evals/new/", views.making.new, name="eval-new"),
    path("evals/upload/", views.making.upload, name="eval-upload"),
    path("evals/record/", views.making.record, name="eval-record"),
    path("evals/replay/<int:pk>/", views.replay, name="session-replay"),
    path("evals/<seg:app_name>/<seg:evalset_id>/", views.evalset, name="evalset"),
    path("evals/<seg:app_name>/<seg:evalset_id>/case/", views.cases.edit, name="eval-case"),
    path("evals/<seg:app_name>/<seg:evalset_id>/change/", views.changes.change, name="evalset-change"),
    path("evals/<seg:app_name>/<seg:evalset_id>/delete/", views.changes.delete, name="evalset-delete"),
    path("evals/<seg:app_name>/<seg:evalset_id>/file/", views.changes.file, name="evalset-file"),
    path("evals/<seg:app_name>/<seg:evalset_id>/versions/", views.versions.index, name="evalset-versions"),
]
