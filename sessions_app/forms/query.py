"""Base forms for query strings."""

from __future__ import annotations

from typing import Any

from django import forms

from sessions_app.store.errors import BadInput
from sessions_app.store.ids import ID_BYTES

MAX_QUERY_CHARACTERS = 8_000
"""Maximum length of a query in the search box. Above the limit of the query language, so that too long a query gets the
language's error instead of being cut by the browser."""


class QueryForm(forms.Form):
    """A form for the query string."""

    def read(self) -> dict[str, Any]:
        """Return the cleaned values.

        Raises:
            BadInput: a parameter is missing or invalid.
        """
        if self.is_valid():
            return self.cleaned_data
        name, faults = next(iter(self.errors.items()))
        if faults.as_data()[0].code == "required":
            raise BadInput(
                f"The parameter {name!r} is missing.",
                hint="Add it to the address, or open the page from a link.",
            )
        raise BadInput(
            f"The parameter {name!r} cannot be used: {faults[0]}",
            hint="Remove the parameter from the address.",
        )


class MultiValueField(forms.Field):
    """A parameter that may occur several times in the query string."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[str]:
        """Return the values, in order."""
        return [str(text) for text in value or []]


class PageQuery(QueryForm):
    """The cursor of a list, which holds at most two ids beside numbers."""

    before = forms.CharField(required=False, max_length=8 * ID_BYTES)


class OwnerQuery(PageQuery):
    """Filters of a list by app, user and session; empty ones match all."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)


class SessionIdsForm(QueryForm):
    """The ids of one session."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    session = forms.CharField(strip=False, max_length=ID_BYTES)


class ListWatch(QueryForm):
    """State of a list on screen that polls for changes (see `sessions_app.sessions.list_updates`)."""

    rows = forms.CharField(required=False)
    since = forms.FloatField(required=False)
    new_count = forms.IntegerField(required=False, min_value=0)


class CompletionQuery(QueryForm):
    """Text of a search box, and the position of the caret."""

    q = forms.CharField(required=False, strip=False, max_length=MAX_QUERY_CHARACTERS)
    caret = forms.IntegerField(required=False, min_value=0)

    def text_and_caret(self) -> tuple[str, int]:
        """Return the text and the offset of the caret, which defaults to the end.

        Raises:
            BadInput: a parameter is invalid.
        """
        values = self.read()
        text: str = values["q"]
        return text, len(text) if values["caret"] is None else values["caret"]
