"""What people send: filters in the query string, and forms of sessions, keys, forks and settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django import forms

from sessions_app import durations, labels, saved_views, state
from sessions_app.branches import fork
from sessions_app.errors import BadInput
from sessions_app.keyset import PAGE_SIZE, integer_key
from sessions_app.listing import SoFar, Wanted
from sessions_app.models import Run, Scope
from sessions_app.query import MAX_LENGTH, parse
from sessions_app.query.times import moment
from sessions_app.writes import ID_BYTES

MOST_ACTED_ON = 500
"""Sessions to which something is done at once."""


class QueryForm(forms.Form):
    """A form over the query string."""

    def read(self) -> dict[str, Any]:
        """Return the cleaned values.

        Raises:
            BadInput: a parameter cannot be meant.
        """
        if self.is_valid():
            return self.cleaned_data
        name, faults = next(iter(self.errors.items()))
        raise BadInput(
            f"The parameter {name!r} cannot be used: {faults[0]}", hint="Open the page without it."
        )


class ManyTexts(forms.Field):
    """A parameter that may stand in the query string several times: a list of texts."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[str]:
        """Return the values, in order."""
        return [str(text) for text in value or []]


class Pager(QueryForm):
    """The cursor of a list."""

    before = forms.CharField(required=False, max_length=600)


class SessionQuery(Pager):
    """Filters of the session list."""

    q = forms.CharField(required=False, max_length=MAX_LENGTH)
    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    errors_only = forms.BooleanField(required=False)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    age = forms.ChoiceField(required=False, choices=[("idle", "idle"), ("expired", "expired")])

    def wanted(self) -> Wanted:
        """Return which sessions are meant.

        Raises:
            QueryProblem: the query cannot be meant as it stands.
            BadInput: another parameter cannot be meant.
        """
        values = self.read()
        return Wanted(
            values["app"],
            values["user"],
            errors=values["errors_only"],
            realm=values["realm"],
            age=values["age"],
            query=parse(values["q"]),
        )


class Watch(QueryForm):
    """What a list on screen shows and knows of (see `sessions_app.watching`)."""

    shown = forms.CharField(required=False)
    since = forms.FloatField(required=False)
    told = forms.IntegerField(required=False, min_value=0)


class Completing(QueryForm):
    """What stands in a search box, and where the caret is."""

    q = forms.CharField(required=False, strip=False, max_length=MAX_LENGTH)
    caret = forms.IntegerField(required=False, min_value=0)

    def asked(self) -> tuple[str, int]:
        """Return the text and the offset of the caret in it; without one, that of its end.

        Raises:
            BadInput: a parameter cannot be meant.
        """
        values = self.read()
        text: str = values["q"]
        return text, len(text) if values["caret"] is None else values["caret"]


class SessionWatch(SessionQuery, Watch):
    """A session list on screen. `left`: how many sessions it says are not indexed yet."""

    left = forms.IntegerField(required=False, min_value=0)


class SessionLook(SessionWatch):
    """A session list, and what looks before came to that its page is to be found by.

    They looked at `looked` sessions and found `found` of the page, which stand on the screen above; `top` tells that it
    is the newest page.
    """

    looked = forms.IntegerField(required=False, min_value=0, max_value=10**12)
    found = forms.IntegerField(required=False, min_value=0, max_value=PAGE_SIZE)
    top = forms.BooleanField(required=False)

    def so_far(self) -> SoFar:
        """Return what looks before came to, once the form is read."""
        return SoFar(self.cleaned_data["looked"] or 0, self.cleaned_data["found"] or 0)


class Acts(forms.Form):
    """What is to be done with sessions of a list: those ticked, or the one that its row's button names.

    `act` is one of `VERBS`, or one with a session's key: `pin:7`.
    """

    VERBS = ("tag", "untag", "pin", "unpin", "delete", "export")

    act = forms.CharField(max_length=40)
    tag = forms.CharField(required=False, max_length=200)

    def read(self, ticked: Sequence[str]) -> tuple[str, list[int], str]:
        """Return what is to be done, with which sessions, and the tag.

        Raises:
            BadInput: it cannot be meant, no session is meant, or too many.
        """
        self.is_valid()
        verb, _, key = str(self.cleaned_data.get("act", "")).partition(":")
        try:
            pks = list(map(integer_key, [key] if key else ticked))
        except ValueError:
            pks = []
        if verb not in self.VERBS or not pks:
            raise BadInput("No session is meant.", hint="Tick the sessions first, then choose what to do.")
        if len(pks) > MOST_ACTED_ON:
            raise BadInput(
                f"{len(pks)} sessions are too many at once; {MOST_ACTED_ON} is the most.",
                hint="Choose fewer.",
            )
        return verb, pks, self.cleaned_data.get("tag", "")


class SessionTitle(forms.Form):
    """The title of a session; an empty one takes it away."""

    title = forms.CharField(label="Title", required=False, max_length=labels.TITLE_LENGTH)


class ViewName(forms.Form):
    """A search to keep under a name, or another name for one."""

    name = forms.CharField(label="Name", max_length=saved_views.NAME_LENGTH)
    query = forms.CharField(required=False, max_length=4000, strip=False)
    replace = forms.BooleanField(required=False)


class MomentField(forms.CharField):
    """A time as the search of sessions takes it, such as `2h` or `2026-11-01`: the text, once it can be meant."""

    def clean(self, value: Any) -> str:
        """Return the text."""
        text: str = super().clean(value)
        try:
            if text:
                moment(text)
        except BadInput as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error
        return text


class RunQuery(Pager):
    """Filters of the list of runs. `after` and `until` are when they were created."""

    FILTERS = ("app", "status", "user", "session", "error", "after", "until")

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    status = forms.ChoiceField(required=False, choices=[("", "any"), *Run.Status.choices])
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    error = forms.CharField(required=False, max_length=200)
    after = MomentField(required=False, max_length=40)
    until = MomentField(required=False, max_length=40)


class RunWatch(RunQuery, Watch):
    """A list of runs on screen."""


class StateQuery(QueryForm):
    """Whose state a page shows, and behind which keys."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    after_app = forms.CharField(required=False, strip=False, max_length=255)
    after_user = forms.CharField(required=False, strip=False, max_length=255)


class HistoryQuery(QueryForm):
    """Which page of a key's history: writes before a position, all or only those of the session `here`."""

    before = forms.IntegerField(required=False, min_value=0)
    here = forms.IntegerField(required=False, min_value=0)


class PieceQuery(QueryForm):
    """Which piece of a JSON value is wanted."""

    pointer = forms.CharField(required=False, strip=False)
    offset = forms.IntegerField(required=False, min_value=0)


class WholeQuery(QueryForm):
    """In which form a whole value is wanted: a page, or its `json`."""

    form = forms.ChoiceField(required=False, choices=[("json", "json")])


class NewSession(forms.Form):
    """A new session. Ids may hold any character, so nothing is stripped."""

    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES, initial="user")
    session_id = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    state = forms.CharField(label="Initial state", required=False, widget=forms.Textarea)
    seeded = forms.BooleanField(required=False)
    how = forms.ChoiceField(required=False, choices=[("new", "new"), ("continue", "continue")])

    def clean_state(self) -> dict[str, Any]:
        """Read the state as a JSON object."""
        return _state(self.cleaned_data["state"])


class EditedMessage(forms.Form):
    """A message said otherwise, in a new session."""

    message = forms.CharField(label="Message", required=False, strip=False, widget=forms.Textarea)
    state_delta = forms.CharField(label="State delta", required=False, widget=forms.Textarea)
    title = forms.CharField(label="Title of the new session", required=False, max_length=fork.TITLE_LIMIT)

    def clean_state_delta(self) -> dict[str, Any]:
        """Read the change of state as a JSON object."""
        return _state(self.cleaned_data["state_delta"])


class SessionTtl(forms.Form):
    """How long an app keeps its sessions: a span, or nothing for ever."""

    ttl = forms.CharField(label="Sessions expire after", required=False, max_length=40)

    def clean_ttl(self) -> float | None:
        """Read the span as seconds."""
        text = self.cleaned_data["ttl"]
        try:
            return durations.parse(text) if text else None
        except BadInput as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error


class KeyQuery(QueryForm):
    """Which key a form is about, whole and with its prefix; without one, a new key."""

    key = forms.CharField(required=False, strip=False)


class KeyEdit(forms.Form):
    """A key and the value it is to have. `seen` is the position of the key's last write when the form was made."""

    scope = forms.ChoiceField(choices=[(str(scope), str(scope)) for scope in Scope])
    key = forms.CharField(label="Key", required=False, strip=False)
    kind = forms.ChoiceField(choices=[("text", "Text"), ("json", "JSON")])
    value = forms.CharField(label="Value", required=False, strip=False, widget=forms.Textarea)
    seen = forms.IntegerField(min_value=0)
    step = forms.ChoiceField(choices=[("preview", "preview"), ("save", "save")])

    def clean(self) -> dict[str, Any]:
        """Read the value, and hold the key to the scope it is to go to."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        cleaned["value"] = self._value(cleaned.get("kind"), cleaned.get("value", ""))
        if cleaned.get("scope") == str(Scope.SESSION):
            self._refuse_prefix(cleaned.get("key", ""))
        return cleaned

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return state.PREFIX[Scope(self.cleaned_data["scope"])] + str(self.cleaned_data["key"])

    def _value(self, kind: str | None, text: str) -> Any:
        if kind != "json":
            return text.replace("\r\n", "\n")
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            self.add_error(
                "value",
                f"Line {error.lineno}, column {error.colno}: {error.msg}. For plain text choose Text.",
            )
        except (ValueError, RecursionError) as error:
            self.add_error("value", f"This is not JSON: {error}.")
        return None

    def _refuse_prefix(self, key: str) -> None:
        for scope, prefix in state.PREFIX.items():
            if prefix and key.startswith(prefix):
                self.add_error(
                    "key", f"{prefix} names the {scope} scope: choose it and leave the prefix out."
                )
        if key.startswith(state.TEMP_PREFIX):
            self.add_error("key", "temp: keys live in one invocation and are never stored.")


class KeyRemoval(forms.Form):
    """The removal of a key, as `KeyEdit`."""

    seen = forms.IntegerField(min_value=0)


class RewindQuery(QueryForm):
    """Which invocation a rewind goes to before: that of an event. `revision` is that of the plan agreed to."""

    event = forms.CharField(strip=False)
    revision = forms.IntegerField(required=False)


class ForkQuery(QueryForm):
    """At which event a session is forked; without one, at the newest."""

    seq = forms.IntegerField(required=False)


class ForkForm(forms.Form):
    """What a fork should be. Ids may hold any character, so nothing is stripped."""

    seq = forms.IntegerField(widget=forms.HiddenInput)
    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES)
    session_id = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    title = forms.CharField(label="Title", required=False)
    shared = forms.ChoiceField(
        label="Shared state",
        choices=[
            ("live", "Live: what user: and app: hold now, shared with other sessions"),
            (
                "own",
                "Its own: as user: and app: were at this event, in a private world whose memory begins empty",
            ),
        ],
        initial="live",
    )

    def wanted(self) -> fork.NewFork:
        """Return what is wanted. Only of a form that is valid."""
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
    """Which sessions are compared, at which events their states, and where the page begins."""

    left = forms.IntegerField()
    right = forms.IntegerField(required=False)
    left_at = forms.IntegerField(required=False, min_value=1)
    right_at = forms.IntegerField(required=False, min_value=1)
    left_after = forms.IntegerField(required=False, min_value=0)
    right_after = forms.IntegerField(required=False, min_value=0)


def _state(text: str) -> dict[str, Any]:
    """Return a state that is written as JSON.

    Raises:
        ValidationError: it is no JSON object.
    """
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise forms.ValidationError(
            f"Line {error.lineno}, column {error.colno}: {error.msg}. The state is a JSON object."
        ) from error
    except RecursionError as error:
        raise forms.ValidationError("The state is nested too deeply.") from error
    except ValueError as error:
        raise forms.ValidationError("A number of the state has more than 4300 digits.") from error
    if not isinstance(found, dict):
        raise forms.ValidationError('The state is a JSON object, such as {"user:name": "Ada"}.')
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
