"""Forms of state pages, JSON pieces, and key edits."""

from __future__ import annotations

from typing import Any

from django import forms

from sessions_app.forms.query import MAX_QUERY_CHARACTERS, QueryForm
from sessions_app.presentation.schema_form import parse_json_input
from sessions_app.store import scopes
from sessions_app.store.ids import ID_BYTES
from sessions_app.store.models import Scope


class StateQuery(QueryForm):
    """App and user whose state is shown, search for a key and its value, and pagination cursors of the keys."""

    q = forms.CharField(required=False, max_length=MAX_QUERY_CHARACTERS)

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    after_app = forms.CharField(required=False, strip=False, max_length=255)
    after_user = forms.CharField(required=False, strip=False, max_length=255)


class HistoryQuery(QueryForm):
    """Page of a key's history: writes before a position, optionally only those of the session `here`.

    `session` is the session whose page links here.
    """

    before = forms.IntegerField(required=False, min_value=0)
    here = forms.IntegerField(required=False, min_value=0)
    session = forms.IntegerField(required=False, min_value=0)


class JsonPieceQuery(QueryForm):
    """JSON pointer to a piece of a value, and an offset in it."""

    pointer = forms.CharField(required=False, strip=False)
    offset = forms.IntegerField(required=False, min_value=0)


class WholeValueQuery(QueryForm):
    """Representation of a whole value: a page, or `json`."""

    form = forms.ChoiceField(required=False, choices=[("json", "json")])


class KeyQuery(QueryForm):
    """Key with its prefix; empty for a new key."""

    key = forms.CharField(required=False, strip=False)


class KeyEditForm(forms.Form):
    """Form of a key and its new value. `seen` is the position of the key's last write when the form was rendered.

    With `is_new` the user types the key, whose prefix selects the scope.
    """

    scope = forms.ChoiceField(choices=[(str(scope), str(scope)) for scope in Scope])
    key = forms.CharField(label="Key", required=False, strip=False)
    kind = forms.ChoiceField(choices=[("text", "Text"), ("json", "JSON")])
    value = forms.CharField(label="Value", required=False, strip=False, widget=forms.Textarea)
    seen_position = forms.IntegerField(min_value=0)
    step = forms.ChoiceField(choices=[("preview", "preview"), ("save", "save")])

    def __init__(self, *args: Any, is_new: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = is_new

    def clean(self) -> dict[str, Any]:
        """Parse the value, and take the scope from the prefix of a new key."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        cleaned["value"] = self._parse_value(cleaned.get("kind"), cleaned.get("value", ""))
        key = cleaned.get("key", "")
        if self.is_new and key.startswith(scopes.TEMP_PREFIX):
            self.add_error("key", "temp: keys live in one invocation and are never stored.")
        elif self.is_new and key:
            scope, bare = scopes.split_scope(key)
            if scope != Scope.SESSION:
                cleaned |= {"scope": str(scope), "key": bare}
        elif self.is_new and cleaned.get("step") == "save":
            self.add_error("key", "The key needs a name.")
        return cleaned

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return scopes.PREFIX[Scope(self.cleaned_data["scope"])] + str(self.cleaned_data["key"])

    def _parse_value(self, kind: str | None, text: str) -> Any:
        if kind != "json":
            return text.replace("\r\n", "\n")
        value, error = parse_json_input(text)
        if error:
            self.add_error("value", f"{error} For plain text choose Text.")
        return value


class KeyRemovalForm(forms.Form):
    """Form that removes a key; `seen` as in `KeyEditForm`."""

    seen_position = forms.IntegerField(min_value=0)


def state_object(text: str) -> dict[str, Any]:
    """Parse a state in JSON.

    Raises:
        ValidationError: the text is not a JSON object.
    """
    if not text.strip():
        return {}
    state, error = parse_json_input(text)
    if error:
        raise forms.ValidationError(f"{error} The state is a JSON object.")
    if not isinstance(state, dict):
        raise forms.ValidationError('The state is a JSON object, such as {"user:name": "Ada"}.')
    return state
