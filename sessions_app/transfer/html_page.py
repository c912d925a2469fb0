"""Export of a session as one self-contained HTML page without scripts and credentials. Read-only."""

from __future__ import annotations

import html
import re

from django.template.loader import render_to_string

from sessions_app.store.models import AgentSession
from sessions_app.store.redaction import redact_text
from sessions_app.store.state import history
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.timeline_reader import read_timeline

FIRST_EVENTS, LAST_EVENTS = 100, 900
"""Events at both ends of a session that the page shows."""

MAX_KEYS = 200
"""State keys of a scope that the page shows."""

_TAGS = re.compile(r"(<[^>]*>)")


def session_html(session: AgentSession, *, first: int = FIRST_EVENTS, last: int = LAST_EVENTS) -> str:
    """Return a session's timeline with its state deltas, and its current state.

    Of a session with more than `first` + `last` events, only so many at both ends are shown.
    """
    if session.last_seq <= first + last:
        parts = [windows.after(session, 0, first + last)]
    else:
        parts = [windows.after(session, 0, first), windows.newest(session, last)]
    scopes = history.state_at(session).scopes()
    context = {
        "session": session,
        "timelines": [read_timeline(session, window, titles=False) for window in parts],
        "omitted": session.last_seq - sum(len(window.events) for window in parts),
        "state": [(scope, rows[:MAX_KEYS], max(0, len(rows) - MAX_KEYS)) for scope, rows in scopes if rows],
    }
    return redact_markup(render_to_string("devui/sessions/report.html", context))


def redact_markup(markup: str) -> str:
    """Return HTML without the credentials that its texts quote. Tags stay as they are."""
    pieces = _TAGS.split(markup)
    pieces[::2] = [_redact_piece(piece) for piece in pieces[::2]]
    return "".join(pieces)


def _redact_piece(piece: str) -> str:
    text = html.unescape(piece)
    redacted = redact_text(text)
    return piece if redacted == text else html.escape(redacted)
