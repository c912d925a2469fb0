"""Parameters of the query string, read into what they mean."""

from __future__ import annotations

from typing import Any

from django import forms

from sessions_app.errors import BadInput

MAX_QUERY_CHARACTERS = 8_000
"""Characters of a query that a search box takes and that is read at all: more than the language allows, because it says
of too long a query what is wrong, and a box that cuts one would not."""


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
        if faults.as_data()[0].code == "required":
            raise BadInput(f"The parameter {name!r} is missing.", hint="Open the page by a link that has it.")
        raise BadInput(
            f"The parameter {name!r} cannot be used: {faults[0]}", hint="Open the page without it."
        )


class MultiValueField(forms.Field):
    """A parameter that may stand in the query string several times: a list of texts."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[str]:
        """Return the values, in order."""
        return [str(text) for text in value or []]


class PageQuery(QueryForm):
    """The cursor of a list."""

    before = forms.CharField(required=False, max_length=600)


class ListWatch(QueryForm):
    """What a list on screen shows and knows of (see `sessions_app.sessions.list_updates`)."""

    shown = forms.CharField(required=False)
    since = forms.FloatField(required=False)
    told = forms.IntegerField(required=False, min_value=0)


class CompletionQuery(QueryForm):
    """What stands in a search box, and where the caret is."""

    q = forms.CharField(required=False, strip=False, max_length=MAX_QUERY_CHARACTERS)
    caret = forms.IntegerField(required=False, min_value=0)

    def asked(self) -> tuple[str, int]:
        """Return the text and the offset of the caret in it; without one, that of its end.

        Raises:
            BadInput: a parameter cannot be meant.
        """
        values = self.read()
        text: str = values["q"]
        return text, len(text) if values["caret"] is None else values["caret"]
