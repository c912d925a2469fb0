"""Filters of the session and run lists, and actions on selected sessions."""

from __future__ import annotations

from collections.abc import Sequence

from django import forms

from sessions_app.forms.query import MAX_QUERY_CHARACTERS, ListWatch, OwnerQuery, PageQuery
from sessions_app.runs import run_list
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import saved_views
from sessions_app.sessions.listing import ScanProgress, SessionFilter
from sessions_app.store.database.pagination import PAGE_SIZE, integer_key
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import ID_BYTES

MAX_SESSIONS_PER_ACTION = 500
"""Maximum number of sessions per action."""


class SessionQuery(PageQuery):
    """Filters of the session list."""

    q = forms.CharField(required=False, max_length=MAX_QUERY_CHARACTERS)
    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    errors_only = forms.BooleanField(required=False)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    age = forms.ChoiceField(required=False, choices=[("idle", "idle"), ("expired", "expired")])

    def filters(self) -> SessionFilter:
        """Return the filters.

        Raises:
            QueryProblem: the search query is invalid.
            BadInput: another parameter is invalid.
        """
        values = self.read()
        return SessionFilter(
            values["app"],
            values["user"],
            errors=values["errors_only"],
            realm=values["realm"],
            age=values["age"],
            query=parse(values["q"]),
        )


class SessionWatch(SessionQuery, ListWatch):
    """Query for changes of a session list on screen."""


class SessionListQuery(SessionWatch):
    """Query of a session list, with the progress of earlier requests that searched for the same page.

    They searched `looked` sessions and found `found` rows of the page, now on screen; `top` marks the newest page.
    """

    scanned = forms.IntegerField(required=False, min_value=0, max_value=10**12)
    matches = forms.IntegerField(required=False, min_value=0, max_value=PAGE_SIZE)
    top = forms.BooleanField(required=False)

    def progress(self) -> ScanProgress:
        """Return the progress of earlier requests; call `filters` first."""
        return ScanProgress(self.cleaned_data["scanned"] or 0, self.cleaned_data["matches"] or 0)


class SessionActionForm(forms.Form):
    """Action on the selected sessions of a list, or on one session.

    `action` is one of `VERBS`; with a primary key (`pin:7`) it applies to that session only.
    """

    VERBS = ("tag", "untag", "pin", "unpin", "delete", "export")

    action = forms.CharField(max_length=40, strip=False)
    tag = forms.CharField(required=False, max_length=200)

    def read(self, ticked: Sequence[str]) -> tuple[str, list[int], str]:
        """Return the action, the primary keys of its sessions, and the tag.

        Raises:
            BadInput: the action is unknown, or no sessions or too many are selected.
        """
        self.is_valid()
        verb, _, key = str(self.cleaned_data.get("action", "")).partition(":")
        try:
            pks = list(map(integer_key, [key] if key else ticked))
        except ValueError:
            pks = []
        if verb not in self.VERBS or not pks:
            raise BadInput("No session is selected.", hint="Select sessions first, then choose an action.")
        if len(pks) > MAX_SESSIONS_PER_ACTION:
            raise BadInput(
                f"{len(pks)} sessions are too many at once; the maximum is {MAX_SESSIONS_PER_ACTION}.",
                hint="Select fewer sessions.",
            )
        return verb, pks, self.cleaned_data.get("tag", "")


class SavedViewForm(forms.Form):
    """Form of a saved view."""

    name = forms.CharField(label="Name", max_length=saved_views.NAME_LENGTH)
    query = forms.CharField(required=False, max_length=4000, strip=False)
    replace = forms.BooleanField(required=False)


class RunQuery(OwnerQuery):
    """Filters of the run list; `session` is a prefix of session ids."""

    FILTERS = tuple(run_list.NO_FILTERS)

    status = forms.ChoiceField(required=False, choices=run_list.STATUSES)
    error = forms.CharField(required=False, max_length=200)
    only = forms.ChoiceField(required=False, choices=[("", "all"), ("errors", "errors")])


class RunWatch(RunQuery, ListWatch):
    """Query for changes of a run list on screen."""
