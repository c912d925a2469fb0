"""Forms of a new session, a session's title, a judgement, and an app's time to live."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import MaxLengthValidator

from sessions_app.forms.state import state_object
from sessions_app.sessions import judgements, labels
from sessions_app.store import durations
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import ID_BYTES

DEFAULT_USER = "user"
"""User of sessions that are created by hand, as on ADK's own page, unless the form says otherwise."""


class NewSessionForm(forms.Form):
    """Form of a new session. Ids may hold any character, so nothing is stripped."""

    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES, initial=DEFAULT_USER)
    session_id = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    state = forms.CharField(label="Initial state", required=False, widget=forms.Textarea)
    seeded = forms.BooleanField(required=False)
    how = forms.ChoiceField(required=False, choices=[("new", "new"), ("continue", "continue")])

    def clean_state(self) -> dict[str, Any]:
        """Parse the state as a JSON object."""
        return state_object(self.cleaned_data["state"])


class SessionTitleForm(forms.Form):
    """Form of a session's title; an empty title removes it."""

    title = forms.CharField(label="Title", required=False, max_length=labels.TITLE_LENGTH)


class JudgementForm(forms.Form):
    """Form of the judgement of a person on an event."""

    verdict = forms.ChoiceField(
        label="Judgement",
        choices=[
            (verdict.value, verdict.label) for verdict in (judgements.Verdict.GOOD, judgements.Verdict.BAD)
        ],
        error_messages={"required": "Choose “good” or “bad”."},
    )
    note = forms.CharField(
        label="Note", required=False, widget=forms.Textarea({"maxlength": judgements.NOTE_LENGTH})
    )

    def clean_note(self) -> str:
        """Return the note. Browsers count a line end as one character, and send two."""
        note: str = self.cleaned_data["note"].replace("\r\n", "\n")
        MaxLengthValidator(judgements.NOTE_LENGTH)(note)
        return note


class SessionTtlForm(forms.Form):
    """Form of the time to live of an app's sessions; empty means that they never expire."""

    ttl = forms.CharField(label="Sessions expire after", required=False, max_length=40)

    def clean_ttl(self) -> float | None:
        """Return the time span in seconds."""
        text = self.cleaned_data["ttl"]
        try:
            return durations.parse(text) if text else None
        except BadInput as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error
