"""Pages of the evals room."""

from django.urls import path

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from evals_app import views

urlpatterns = [
    path("evals/", views.index, name="evals"),
    path("evals/runs/<str:run_id>/", views.run, name="eval-run"),
    path("evals/runs/<str:run_id>/cancel/", views.cancel, name="eval-run-cancel"),
    path("evals/runs/<str:run_id>/export/<str:kind>/", views.export, name="eval-run-export"),
    path("evals/<seg:app_name>/<seg:evalset_id>/", views.evalset, name="evalset"),
]
