"""URLs of the session pages."""

from __future__ import annotations

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from sessions_app.http import LazyRoute


def page(route: str, view: str, name: str) -> LazyRoute:
    """Route to a view of this app, `MODULE.FUNCTION`, imported on demand."""
    return LazyRoute(route, f"sessions_app.views.{view}", name)


urlpatterns = [
    page("sessions/", "session_list.index", "sessions"),
    page("sessions/changes/", "session_list.changes", "session-changes"),
    page("sessions/completions/", "session_list.completions", "query-completions"),
    page("sessions/query-help/", "session_list.query_help", "query-help"),
    page("sessions/new/", "new_session.new", "session-new"),
    page("sessions/actions/", "session_actions.apply_action", "session-actions"),
    page("sessions/deleted/<str:batch>/undo/", "session_actions.undo", "session-undo"),
    page("sessions/views/", "session_actions.view_list", "saved-views"),
    page("sessions/views/<int:pk>/", "session_actions.change_view", "saved-view"),
    page("sessions/compare/", "branches.compare", "session-compare"),
    page("sessions/id/<int:pk>/rewind/", "branches.rewind_session", "session-rewind"),
    page("sessions/id/<int:pk>/fork/", "branches.fork_session", "session-fork"),
    page("sessions/id/<int:pk>/rename/", "session_actions.rename", "session-rename"),
    page("sessions/id/<int:pk>/export/", "session_actions.export_page", "session-export"),
    page("sessions/id/<int:pk>/delete/", "session_actions.delete", "session-delete"),
    page("sessions/id/<int:pk>/", "session.by_key", "session-by-pk"),
    page("sessions/id/<int:pk>/events/<int:seq>/", "event.event_json", "event-json"),
    page("sessions/id/<int:pk>/completions/", "session_search.completions", "session-completions"),
    page("sessions/id/<int:pk>/events/<int:seq>/blob/", "files.blob", "event-blob"),
    page("sessions/id/<int:pk>/artifacts/", "artifacts.of_session", "artifact-of-session"),
    page("sessions/id/<int:pk>/state/edit/", "state_edit.edit", "key-edit"),
    page("sessions/id/<int:pk>/state/remove/", "state_edit.remove", "key-remove"),
    page("sessions/id/<int:pk>/state/drift/", "state.session_drift", "session-drift"),
    page("sessions/id/<int:pk>/problems/", "problems.problems", "session-problems"),
    page("sessions/id/<int:pk>/state/hints/", "lint_hints.hints", "session-hints"),
    page("sessions/id/<int:pk>/nested/<int:run>/", "nested_runs.events", "nested-events"),
    page(
        "sessions/id/<int:pk>/nested/<int:run>/<int:number>/", "nested_runs.event_json", "nested-event-json"
    ),
    page("sessions/<seg:app_name>/<seg:user_id>/<seg:session_id>/", "session.page", "session"),
    page("sessions/id/<int:pk>/events/<int:seq>/model/", "traces.event_call", "event-model-call"),
    page("sessions/id/<int:pk>/model-calls/<int:call>/", "traces.call", "model-call"),
    page("sessions/id/<int:pk>/events/<int:seq>/log/", "run_log.of_event", "event-log"),
    page("sessions/id/<int:pk>/model-calls/<int:call>/json/", "traces.call_json", "model-call-json"),
    page("state/", "state.index", "state"),
    page("state/history/<int:pk>/", "state.key_history", "key-history"),
    page("state/values/<int:pk>/", "state.value", "state-value"),
    page("state/values/<int:pk>/whole/", "state.whole_value", "state-whole-value"),
    page("runs/", "run_list.index", "runs"),
    page("runs/changes/", "run_list.changes", "run-changes"),
    page("runs/start/<int:pk>/", "console.start", "session-run"),
    page("runs/message/<int:pk>/", "console.message", "session-message"),
    page("runs/call/<int:pk>/", "console.call", "session-call"),
    page("runs/live/<int:pk>/", "live_run.live", "session-live"),
    page("runs/sign-in/<int:pk>/", "sign_in.begin", "sign-in"),
    page("runs/signed-in/", "sign_in.end", "signed-in"),
    page("runs/edit/<int:pk>/<int:seq>/", "rerun.edit", "message-edit"),
    page("runs/<str:run_id>/resume/", "rerun.resume", "run-resume"),
    page("runs/<str:run_id>/again/", "console.resend", "run-again"),
    page("runs/<str:run_id>/cancel/", "console.cancel", "run-cancel"),
    page("sessions/id/<int:pk>/events/<int:seq>/seen/", "model_preview.at_event", "event-seen"),
    page("sessions/id/<int:pk>/events/<int:seq>/trace/", "traces.event_trace", "event-trace"),
    page("artifacts/", "artifacts.index", "artifacts"),
    page("artifacts/there/", "external_resources.artifacts", "artifacts-there"),
    page("artifacts/there/content/", "external_resources.artifact_content", "artifact-there-content"),
    page("artifacts/file/", "artifacts.file", "artifact"),
    page("artifacts/upload/", "artifacts.upload", "artifact-upload"),
    page("artifacts/delete/", "artifacts.delete", "artifact-delete"),
    page("artifacts/<int:pk>/content/", "artifacts.content", "artifact-content"),
    page("artifacts/<int:pk>/json/", "artifacts.content_json", "artifact-json"),
    page("memory/", "memory.index", "memory"),
    page("memory/there/", "external_resources.memory", "memory-there"),
    page("memory/add/", "memory.add", "memory-add"),
    page("memory/<int:pk>/delete/", "memory.delete", "memory-delete"),
    page("traces/", "traces.index", "traces"),
    page("traces/<int:pk>/", "traces.page", "trace"),
    page("traces/<int:pk>/log/", "run_log.page", "trace-log"),
    page("agents/<seg:app_name>/", "agents.agent", "agent"),
    page("agents/<seg:app_name>/settings/", "app_settings.change", "agent-settings"),
    page("agent-check/", "agents.check", "agent-check"),
    page("app-menu/", "agents.menu", "app-menu"),
    page("imports/", "imports.offers", "import-offers"),
    page("imports/start/", "imports.start", "import-start"),
    page("imports/dismiss/", "imports.dismiss", "import-dismiss"),
]
