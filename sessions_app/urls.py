"""URLs of the session pages."""

from __future__ import annotations

import sessions_app.paths  # noqa: F401 - registers the `seg` converter
from sessions_app.roles import (
    CALL_TOOL,
    CANCEL,
    CHANGE_SETTINGS,
    CREATE,
    DECIDE,
    DELETE,
    DELETE_ARTIFACT,
    DELETE_MEMORY,
    EDIT,
    EDIT_SAVED_VIEW,
    EDIT_STATE,
    EXPORT,
    IMPORT,
    LABEL,
    READ,
    REMEMBER,
    RESTART,
    RESTORE,
    RUN,
    SESSION_ACTION,
    UPLOAD,
    AccessRule,
    Role,
)
from sessions_app.routes import Route

SESSION = "sessions/id/<int:pk>/"
EVENT = SESSION + "events/<int:seq>/"


def page(route: str, view: str, name: str, **rules: AccessRule) -> Route:
    """Route to a view of this app, `MODULE.FUNCTION`, imported on demand."""
    return Route(route, f"sessions_app.views.{view}", name, **rules)


urlpatterns = [
    page("sessions/", "session_list.index", "sessions", get=READ),
    page("sessions/csv/", "session_list.csv_file", "sessions-csv", get=EXPORT),
    page("sessions/changes/", "session_list.changes", "session-changes", get=READ),
    page("sessions/completions/", "session_list.completions", "query-completions", get=READ),
    page("sessions/query-help/", "session_list.query_help", "query-help", get=READ),
    page("sessions/new/", "new_session.new", "session-new", get=READ, post=CREATE.with_app_field("app")),
    page("sessions/actions/", "session_actions.apply_action", "session-actions", post=SESSION_ACTION),
    page("sessions/deleted/<str:batch>/undo/", "session_actions.undo", "session-undo", post=RESTORE),
    page("sessions/views/", "session_actions.view_list", "saved-views", get=READ, post=EDIT_SAVED_VIEW),
    page("sessions/views/<int:pk>/", "session_actions.change_view", "saved-view", post=EDIT_SAVED_VIEW),
    page("sessions/compare/", "branches.compare", "session-compare", get=READ),
    page(SESSION + "rewind/", "branches.rewind_session", "session-rewind", get=READ, post=EDIT),
    page(
        SESSION + "fork/",
        "branches.fork_session",
        "session-fork",
        get=READ,
        post=CREATE.with_target_app_field("app"),
    ),
    page(SESSION + "rename/", "session_actions.rename", "session-rename", get=READ, post=LABEL),
    page(SESSION + "export/", "session_actions.export_page", "session-export", get=EXPORT),
    page(SESSION + "delete/", "session_actions.delete", "session-delete", get=READ, post=DELETE),
    page(SESSION, "session.by_key", "session-by-pk", get=READ),
    page(EVENT, "event.event_json", "event-json", get=READ),
    page(EVENT + "judge/", "judgements.judge", "event-judge", get=READ, post=LABEL),
    page(SESSION + "completions/", "session_search.completions", "session-completions", get=READ),
    page(EVENT + "blob/", "files.blob", "event-blob", get=READ),
    page(SESSION + "artifacts/", "artifacts.open_session_file", "artifact-of-session", get=READ),
    page(SESSION + "state/edit/", "state_edit.edit", "key-edit", get=READ, post=EDIT_STATE),
    page(SESSION + "state/remove/", "state_edit.remove", "key-remove", get=READ, post=EDIT_STATE),
    page(SESSION + "state/drift/", "state.session_drift", "session-drift", get=READ),
    page(SESSION + "problems/", "problems.problems", "session-problems", get=READ),
    page(SESSION + "state/hints/", "problems.hints", "session-hints", get=READ),
    page(SESSION + "nested/", "nested_runs.events", "nested-events", get=READ),
    page("sessions/<seg:app_name>/<seg:user_id>/<seg:session_id>/", "session.page", "session", get=READ),
    page(EVENT + "model/", "traces.event_call", "event-model-call", get=READ),
    page(SESSION + "model-calls/<int:call>/", "traces.call", "model-call", get=READ),
    page(EVENT + "log/", "run_log.show_event_log", "event-log", get=READ),
    page(SESSION + "model-calls/<int:call>/json/", "traces.call_json", "model-call-json", get=READ),
    page("state/", "state.index", "state", get=READ),
    page("state/history/<int:pk>/", "state.key_history", "key-history", get=READ),
    page("state/values/<int:pk>/", "state.value", "state-value", get=READ),
    page("state/values/<int:pk>/whole/", "state.whole_value", "state-whole-value", get=READ),
    page("problems/", "problems.index", "problems", get=READ),
    page(
        "problems/csv/", "problems.csv_file", "problems-csv", get=AccessRule(Role.READER, "export", "problem")
    ),
    page("runs/", "run_list.index", "runs", get=READ),
    page("runs/csv/", "run_list.csv_file", "runs-csv", get=AccessRule(Role.READER, "export", "run")),
    page("runs/changes/", "run_list.changes", "run-changes", get=READ),
    page("runs/cancel/", "run_list.cancel", "runs-cancel", post=CANCEL),
    page("runs/start/<int:pk>/", "console.start", "session-run", post=RUN),
    page("runs/message/<int:pk>/", "console.message", "session-message", get=READ),
    page("runs/call/<int:pk>/", "console.call", "session-call", post=READ),  # shows a call
    page("runs/live/<int:pk>/", "live_run.live", "session-live", get=READ),
    page("runs/sign-in/<int:pk>/", "sign_in.begin", "sign-in", get=AccessRule(Role.RUNNER)),
    page("runs/signed-in/", "sign_in.end", "signed-in", get=RUN.with_app_field("state")),  # ends a call
    page("runs/edit/<int:pk>/<int:seq>/", "rerun.edit", "message-edit", get=READ, post=RUN),
    page("runs/<str:run_id>/resume/", "rerun.resume", "run-resume", get=READ, post=RUN),
    page("runs/<str:run_id>/again/", "console.resend", "run-again", post=RUN),
    page("runs/<str:run_id>/cancel/", "console.cancel", "run-cancel", post=CANCEL),
    page("runs/<str:run_id>/pauses/<int:pause>/", "pauses.decide", "pause-decide", post=DECIDE),
    # POST calls the agent's instruction providers
    page(EVENT + "seen/", "model_preview.at_event", "event-seen", get=READ, post=RUN),
    page(EVENT + "why/", "answer_sources.show", "event-why", get=READ),
    page(EVENT + "trace/", "traces.event_trace", "event-trace", get=READ),
    page("artifacts/", "artifacts.index", "artifacts", get=READ),
    page(
        "artifacts/csv/",
        "artifacts.csv_file",
        "artifacts-csv",
        get=AccessRule(Role.READER, "export", "artifact"),
    ),
    page("artifacts/there/", "external_resources.artifacts", "artifacts-there", get=READ),
    page(
        "artifacts/there/content/", "external_resources.artifact_content", "artifact-there-content", get=READ
    ),
    page("artifacts/file/", "artifacts.file", "artifact", get=READ),
    page(
        "artifacts/upload/",
        "artifacts.upload",
        "artifact-upload",
        get=READ,
        post=UPLOAD.with_app_field("app"),
    ),
    page("artifacts/delete/", "artifacts.delete", "artifact-delete", get=READ, post=DELETE_ARTIFACT),
    page("artifacts/<int:pk>/content/", "artifacts.content", "artifact-content", get=READ),
    page("artifacts/<int:pk>/json/", "artifacts.content_json", "artifact-json", get=READ),
    page("memory/", "memory.index", "memory", get=READ),
    page("memory/csv/", "memory.csv_file", "memory-csv", get=AccessRule(Role.READER, "export", "memory")),
    page("memory/there/", "external_resources.memory", "memory-there", get=READ),
    page("memory/add/", "memory.add", "memory-add", post=REMEMBER.with_app_field("app")),
    page("memory/delete/", "memory.delete", "memory-delete", get=READ, post=DELETE_MEMORY),
    page("spending/", "spending.spending", "spending", get=READ),
    page("monitor/", "trends.overview_page", "monitor", get=READ),
    page("trends/", "trends.index", "trends", get=READ),
    page("traces/", "run_list.former_traces", "traces", get=READ),
    page("traces/<int:pk>/", "traces.page", "trace", get=READ),
    page("traces/<int:pk>/log/", "run_log.page", "trace-log", get=READ),
    page("agents/<seg:app_name>/", "agents.agent", "agent", get=READ),
    page("agents/<seg:app_name>/message/", "first_message.first_message", "first-message", post=RUN),
    page("agents/<seg:app_name>/tools/<seg:tool>/", "tools.tool", "tool-call", get=READ, post=CALL_TOOL),
    page("agents/<seg:app_name>/restart/", "agents.restart", "agent-restart", post=RESTART),
    page("agents/<seg:app_name>/settings/", "app_settings.change", "agent-settings", post=CHANGE_SETTINGS),
    page("agent-check/", "agents.check", "agent-check", get=READ),
    page("app-menu/", "agents.menu", "app-menu", get=READ),
    page("imports/", "imports.offers", "import-offers", get=READ),
    page("imports/start/", "imports.start", "import-start", post=IMPORT),
    page("imports/dismiss/", "imports.dismiss", "import-dismiss", post=IMPORT),
]
