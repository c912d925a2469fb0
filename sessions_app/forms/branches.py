"""Forms of edited messages, rewinds, forks and session comparison."""

from __future__ import annotations

from typing import Any

from django import forms

from sessions_app.branches import fork
from sessions_app.forms.query import MAX_QUERY_CHARACTERS, MultiValueField, QueryForm
from sessions_app.forms.state import state_object
from sessions_app.store.ids import ID_BYTES


class EditMessageForm(forms.Form):
    """An edited message to run in a new session."""

    message = forms.CharField(label="Message", required=False, strip=False, widget=forms.Textarea)
    state_delta = forms.CharField(label="State delta", required=False, widget=forms.Textarea)
    title = forms.CharField(label="Title of the new session", required=False, max_length=fork.TITLE_LIMIT)

    def clean_state_delta(self) -> dict[str, Any]:
        """Parse the state delta as a JSON object."""
        return state_object(self.cleaned_data["state_delta"])


class RewindQuery(QueryForm):
    """Event before whose invocation to rewind; `revision` is that of the reviewed plan."""

    event = forms.CharField(strip=False)
    revision = forms.IntegerField(required=False)


class ForkQuery(QueryForm):
    """Event at which to fork a session; defaults to the newest."""

    seq = forms.IntegerField(required=False)


class ForkForm(forms.Form):
    """Options of a fork. Ids may hold any character, so nothing is stripped."""

    seq = forms.IntegerField(widget=forms.HiddenInput)
    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES)
    session_id = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    title = forms.CharField(label="Title", required=False)
    shared = forms.ChoiceField(
        label="Shared state",
        choices=[
            ("live", "Live: the current user: and app: state, shared with other sessions"),
            (
                "own",
                "Isolated: a copy of user: and app: as of this event, in an isolated namespace with empty memory",
            ),
        ],
        initial="live",
    )

    def new_fork(self) -> fork.NewFork:
        """Return the options of a valid form."""
        values = self.cleaned_data
        return fork.NewFork(
            seq=values["seq"],
            app_name=values["app"],
            user_id=values["user"],
            session_id=values["session_id"],
            title=values["title"],
            own_realm=values["shared"] == "own",
        )


class CompareQuery(QueryForm):
    """Sessions to compare, the events at which their states are compared, and the pagination cursors.

    `session`: the two sessions that are selected in a list. `q`: search for the session to compare with.
    """

    session = MultiValueField(required=False)
    left = forms.IntegerField(required=False)
    right = forms.IntegerField(required=False)
    q = forms.CharField(required=False, max_length=MAX_QUERY_CHARACTERS)
    left_at = forms.IntegerField(required=False, min_value=1)
    right_at = forms.IntegerField(required=False, min_value=1)
    left_after = forms.IntegerField(required=False, min_value=0)
    right_after = forms.IntegerField(required=False, min_value=0)

    def clean_left(self) -> int | None:
        """Require the left session unless the sessions are selected in a list."""
        left: int | None = self.cleaned_data["left"]
        if left is None and not self.cleaned_data["session"]:
            raise forms.ValidationError(self.fields["left"].error_messages["required"])
        return left
