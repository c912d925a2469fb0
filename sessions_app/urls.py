"""Pages of the sessions room."""

from django.urls import path

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from sessions_app.views import (
    agents,
    app_settings,
    branches,
    console,
    imports,
    runs,
    session,
    sessions,
    state,
    state_edit,
)

urlpatterns = [
    path("sessions/", sessions.index, name="sessions"),
    path("sessions/changes/", sessions.changes, name="session-changes"),
    path("sessions/new/", sessions.new, name="session-new"),
    path("sessions/compare/", branches.compare, name="session-compare"),
    path("sessions/id/<int:pk>/rewind/", branches.rewind_session, name="session-rewind"),
    path("sessions/id/<int:pk>/fork/", branches.fork_session, name="session-fork"),
    path("sessions/id/<int:pk>/delete/", sessions.delete, name="session-delete"),
    path("sessions/id/<int:pk>/", session.by_key, name="session-by-pk"),
    path("sessions/id/<int:pk>/events/<int:seq>/", session.event_json, name="event-json"),
    path("sessions/id/<int:pk>/state/edit/", state_edit.edit, name="key-edit"),
    path("sessions/id/<int:pk>/state/remove/", state_edit.remove, name="key-remove"),
    path("sessions/id/<int:pk>/state/drift/", state.drift_of, name="session-drift"),
    path("sessions/<seg:app_name>/<seg:user_id>/<seg:session_id>/", session.page, name="session"),
    path("state/", state.index, name="state"),
    path("state/history/<int:pk>/", state.key_history, name="key-history"),
    path("state/values/<int:pk>/", state.value, name="state-value"),
    path("runs/", runs.index, name="runs"),
    path("runs/changes/", runs.changes, name="run-changes"),
    path("runs/start/<int:pk>/", console.start, name="session-run"),
    path("runs/<str:run_id>/cancel/", console.cancel, name="run-cancel"),
    path("agents/<seg:app_name>/", agents.agent, name="agent"),
    path("agents/<seg:app_name>/settings/", app_settings.change, name="agent-settings"),
    path("agent-check/", agents.check, name="agent-check"),
    path("app-menu/", agents.menu, name="app-menu"),
    path("imports/", imports.offers, name="import-offers"),
    path("imports/start/", imports.start, name="import-start"),
    path("imports/dismiss/", imports.dismiss, name="import-dismiss"),
]
