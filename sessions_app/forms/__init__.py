"""What people send: filters in the query string, and forms of sessions, keys, forks and settings."""

from sessions_app.forms.branches import CompareQuery, EditedMessage, ForkForm, ForkQuery, RewindQuery
from sessions_app.forms.lists import (
    MOST_ACTED_ON,
    Acts,
    RunQuery,
    RunWatch,
    SessionLook,
    SessionQuery,
    SessionWatch,
    ViewName,
)
from sessions_app.forms.query import MOST_TAKEN, Completing, ManyTexts, Pager, QueryForm, Watch
from sessions_app.forms.sessions import NewSession, SessionTitle, SessionTtl
from sessions_app.forms.state import (
    HistoryQuery,
    KeyEdit,
    KeyQuery,
    KeyRemoval,
    PieceQuery,
    StateQuery,
    WholeQuery,
)

__all__ = [
    "MOST_ACTED_ON",
    "MOST_TAKEN",
    "Acts",
    "CompareQuery",
    "Completing",
    "EditedMessage",
    "ForkForm",
    "ForkQuery",
    "HistoryQuery",
    "KeyEdit",
    "KeyQuery",
    "KeyRemoval",
    "ManyTexts",
    "NewSession",
    "Pager",
    "PieceQuery",
    "QueryForm",
    "RewindQuery",
    "RunQuery",
    "RunWatch",
    "SessionLook",
    "SessionQuery",
    "SessionTitle",
    "SessionTtl",
    "SessionWatch",
    "StateQuery",
    "ViewName",
    "Watch",
    "WholeQuery",
]
