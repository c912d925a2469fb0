"""Query string forms of lists and pages, and forms of sessions, keys, forks and settings."""

from sessions_app.forms.branches import CompareQuery, EditMessageForm, ForkForm, ForkQuery, RewindQuery
from sessions_app.forms.lists import (
    MAX_SESSIONS_PER_ACTION,
    RunQuery,
    RunWatch,
    SavedViewForm,
    SessionActionForm,
    SessionListQuery,
    SessionQuery,
    SessionWatch,
)
from sessions_app.forms.query import (
    MAX_QUERY_CHARACTERS,
    CompletionQuery,
    ListWatch,
    MultiValueField,
    PageQuery,
    QueryForm,
)
from sessions_app.forms.session_page import TABS, SessionPageQuery
from sessions_app.forms.sessions import NewSessionForm, SessionTitleForm, SessionTtlForm
from sessions_app.forms.state import (
    HistoryQuery,
    JsonPieceQuery,
    KeyEditForm,
    KeyQuery,
    KeyRemovalForm,
    StateQuery,
    WholeValueQuery,
)

__all__ = [
    "MAX_QUERY_CHARACTERS",
    "MAX_SESSIONS_PER_ACTION",
    "TABS",
    "CompareQuery",
    "CompletionQuery",
    "EditMessageForm",
    "ForkForm",
    "ForkQuery",
    "HistoryQuery",
    "JsonPieceQuery",
    "KeyEditForm",
    "KeyQuery",
    "KeyRemovalForm",
    "ListWatch",
    "MultiValueField",
    "NewSessionForm",
    "PageQuery",
    "QueryForm",
    "RewindQuery",
    "RunQuery",
    "RunWatch",
    "SavedViewForm",
    "SessionActionForm",
    "SessionListQuery",
    "SessionPageQuery",
    "SessionQuery",
    "SessionTitleForm",
    "SessionTtlForm",
    "SessionWatch",
    "StateQuery",
    "WholeValueQuery",
]
