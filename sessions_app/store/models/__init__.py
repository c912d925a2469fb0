"""The tables: sessions, events, scoped state and the ledger of its changes, runs, traces, artifacts, memory.

Every row that belongs to a session has a realm through its session or scope: empty by default, otherwise the isolated
namespace of an eval attempt or a fork (see `realms`).

Times are float seconds since the epoch, as in ADK. Values and event bodies are JSON in text columns: PostgreSQL's
jsonb refuses NUL, lone surrogates and NaN, and reorders keys.
"""

from sessions_app.store.models.apps import AgentCard, AppSettings
from sessions_app.store.models.artifacts import Artifact, MemoryEntry
from sessions_app.store.models.derived import (
    EventWords,
    PersonUsage,
    SessionProblem,
    SessionTrait,
    SessionUsage,
    SessionWords,
    StateValue,
    TrendBucket,
)
from sessions_app.store.models.imports import (
    ImportedScope,
    ImportedSession,
    ImportSource,
    MirroredSession,
)
from sessions_app.store.models.runs import Run, RuntimeProcess
from sessions_app.store.models.sessions import (
    UNCHECKED,
    UNINDEXED,
    AgentSession,
    DeletedSession,
    Event,
    EventSummary,
    SavedView,
    SessionTag,
)
from sessions_app.store.models.state import (
    STATE_ROWS,
    AppScope,
    AppState,
    ChangeCause,
    Scope,
    SessionState,
    StateChange,
    StateRow,
    TempWrite,
    UntrackedKey,
    UserScope,
    UserState,
)
from sessions_app.store.models.traces import (
    LOG_LEVELS,
    UNCOUNTED,
    UNINDEXED_NESTED,
    LogRecord,
    ModelCall,
    ModelPiece,
    NestedRun,
    Span,
    Trace,
)

__all__ = [
    "LOG_LEVELS",
    "STATE_ROWS",
    "UNCHECKED",
    "UNCOUNTED",
    "UNINDEXED",
    "UNINDEXED_NESTED",
    "AgentCard",
    "AgentSession",
    "AppScope",
    "AppSettings",
    "AppState",
    "Artifact",
    "ChangeCause",
    "DeletedSession",
    "Event",
    "EventSummary",
    "EventWords",
    "ImportSource",
    "ImportedScope",
    "ImportedSession",
    "LogRecord",
    "MemoryEntry",
    "MirroredSession",
    "ModelCall",
    "ModelPiece",
    "NestedRun",
    "PersonUsage",
    "Run",
    "RuntimeProcess",
    "SavedView",
    "Scope",
    "SessionProblem",
    "SessionState",
    "SessionTag",
    "SessionTrait",
    "SessionUsage",
    "SessionWords",
    "Span",
    "StateChange",
    "StateRow",
    "StateValue",
    "TempWrite",
    "Trace",
    "TrendBucket",
    "UntrackedKey",
    "UserScope",
    "UserState",
]
