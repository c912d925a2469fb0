"""What a page of state shows, and keys that are written by hand."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from sessions_app import scopes
from sessions_app.forms.query import QueryForm
from sessions_app.models import Scope
from sessions_app.sessions.writes import ID_BYTES


class StateQuery(QueryForm):
    """Whose state a page shows, and behind which keys."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    after_app = forms.CharField(required=False, strip=False, max_length=255)
    after_user = forms.CharField(required=False, strip=False, max_length=255)


class HistoryQuery(QueryForm):
    """Which page of a key's history: writes before a position, all or only those of the session `here`.

    `session` is the one whose page leads here.
    """

    before = forms.IntegerField(required=False, min_value=0)
    here = forms.IntegerField(required=False, min_value=0)
    session = forms.IntegerField(required=False, min_value=0)


class JsonPieceQuery(QueryForm):
    """Which piece of a JSON value is wanted."""

    pointer = forms.CharField(required=False, strip=False)
    offset = forms.IntegerField(required=False, min_value=0)


class WholeValueQuery(QueryForm):
    """In which form a whole value is wanted: a page, or its `json`."""

    form = forms.ChoiceField(required=False, choices=[("json", "json")])


class KeyQuery(QueryForm):
    """Which key a form is about, whole and with its prefix; without one, a new key."""

    key = forms.CharField(required=False, strip=False)


class KeyEditForm(forms.Form):
    """A key and the value it is to have. `seen` is the position of the key's last write when the form was made.

    `is_new`: the key is typed, and a prefix before it chooses the scope.
    """

    scope = forms.ChoiceField(choices=[(str(scope), str(scope)) for scope in Scope])
    key = forms.CharField(label="Key", required=False, strip=False)
    kind = forms.ChoiceField(choices=[("text", "Text"), ("json", "JSON")])
    value = forms.CharField(label="Value", required=False, strip=False, widget=forms.Textarea)
    seen = forms.IntegerField(min_value=0)
    step = forms.ChoiceField(choices=[("preview", "preview"), ("save", "save")])

    def __init__(self, *args: Any, is_new: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = is_new

    def clean(self) -> dict[str, Any]:
        """Read the value, and hold the key to the scope it is to go to."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        cleaned["value"] = self._value(cleaned.get("kind"), cleaned.get("value", ""))
        key = cleaned.get("key", "")
        if self.is_new and key.startswith(scopes.TEMP_PREFIX):
            self.add_error("key", "temp: keys live in one invocation and are never stored.")
        elif self.is_new and key:
            scope, bare = scopes.scope_of(key)
            if scope != Scope.SESSION:
                cleaned |= {"scope": str(scope), "key": bare}
        elif self.is_new and cleaned.get("step") == "save":
            self.add_error("key", "The key needs a name.")
        return cleaned

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return scopes.PREFIX[Scope(self.cleaned_data["scope"])] + str(self.cleaned_data["key"])

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


class KeyRemovalForm(forms.Form):
    """The removal of a key, as `KeyEdit`."""

    seen = forms.IntegerField(min_value=0)


def state_object(text: str) -> dict[str, Any]:
    """Return a state that is written as JSON.

    Raises:
        ValidationError: it is no JSON object.
    """
    if not text.strip():
        return {}
    try:
        state = json.loads(text)
    except json.JSONDecodeError as error:
        raise forms.ValidationError(
            f"Line {error.lineno}, column {error.colno}: {error.msg}. The state is a JSON object."
        ) from error
    except RecursionError as error:
        raise forms.ValidationError("The state is nested too deeply.") from error
    except ValueError as error:
        raise forms.ValidationError("A number of the state has more than 4300 digits.") from error
    if not isinstance(state, dict):
        raise forms.ValidationError('The state is a JSON object, such as {"user:name": "Ada"}.')
    return state


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
