"""Form of a call of a tool: its arguments by its JSON schema or as JSON, and what the call runs with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import QueryDict

from sessions_app.forms.query import QueryForm
from sessions_app.forms.state import state_object
from sessions_app.presentation import schema_form
from sessions_app.presentation.schema_form import FormField
from sessions_app.runs.tool_calls import DEFAULT_LIMIT_S, MAX_LIMIT_S
from sessions_app.store.ids import ID_BYTES

ARGUMENT_PREFIX = "args."
"""Prefix of the names of the arguments' inputs."""

MAX_SHOWN_NAME = 80
"""Characters of a name that an error quotes."""

CONFIRMATIONS = [("", "not answered"), ("confirmed", "confirmed"), ("rejected", "rejected")]


class ToolQuery(QueryForm):
    """Agent that has the tool; empty: the first one that has it."""

    agent = forms.CharField(required=False, strip=False, max_length=ID_BYTES)


class ToolCallForm(forms.Form):
    """Form of a call. `arguments` are the fields of the tool's schema with their content and its errors."""

    args_json = forms.CharField(
        label="Arguments as JSON",
        required=False,
        widget=forms.Textarea,
        help_text="One object with all arguments, for values that no field can show.",
    )
    from_session = forms.IntegerField(
        label="State of session",
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        widget=forms.TextInput,
        help_text="Its number, as in /sessions/id/NUMBER/. The tool gets its state, events and user, no artifacts.",
    )
    state = forms.CharField(
        label="State",
        required=False,
        widget=forms.Textarea,
        help_text="A JSON object. Its keys replace those of the session.",
    )
    confirmation = forms.ChoiceField(
        label="Confirmation",
        required=False,
        choices=CONFIRMATIONS,
        help_text="For tools that ask before they act.",
    )
    seconds = forms.FloatField(
        label="Time limit in seconds",
        min_value=1,
        max_value=MAX_LIMIT_S,
        initial=f"{DEFAULT_LIMIT_S:g}",
        widget=forms.TextInput,
        help_text=f"From 1 to {MAX_LIMIT_S:g}. Then the call is cancelled. One that blocks its process has 60 s.",
    )

    def __init__(self, schema: Mapping[str, Any], posted: QueryDict | None = None, **options: Any) -> None:
        """Create the form of a schema, filled with what was posted if anything was."""
        super().__init__(posted, **options)
        arguments = schema_form.build_fields(schema, ARGUMENT_PREFIX)
        self.arguments = [field for field in arguments if field.name]  # otherwise the schema names none
        if posted is not None:
            self.arguments = schema_form.fill_fields(self.arguments, posted)

    def shown_arguments(self) -> list[FormField]:
        """Return the fields of the arguments: those with a control first."""
        return schema_form.sort_by_control(self.arguments)

    def clean_state(self) -> dict[str, Any]:
        """Parse the state as a JSON object."""
        return state_object(self.cleaned_data["state"])

    def clean_args_json(self) -> dict[str, Any] | None:
        """Parse the arguments as a JSON object; None without a text."""
        text = self.cleaned_data["args_json"]
        if not text.strip():
            return None
        if schema_form.has_input(self.arguments):
            raise forms.ValidationError("Fill in either the fields or the JSON.")
        value, error = schema_form.parse_json_input(text)
        if error or not isinstance(value, dict):
            raise forms.ValidationError(
                error or 'The arguments are a JSON object, such as {"city": "Paris"}.'
            )
        return value

    def clean(self) -> dict[str, Any]:
        """Read the arguments from their fields, unless they are given as JSON."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        self._refuse_unknown_names()
        cleaned["args"] = cleaned.get("args_json")
        if "args_json" in cleaned and cleaned["args"] is None:
            cleaned["args"], self.arguments = schema_form.read_value(self.arguments)
            for field in schema_form.invalid_fields(self.arguments):
                self.add_error(None, f"{field.input_name.removeprefix(ARGUMENT_PREFIX)}: {field.error}")
        return cleaned

    def call_body(self, tool: str, agent: str) -> dict[str, Any]:
        """Return the body of the call of a valid form, without its session."""
        return {
            "tool": tool,
            "agent": agent,
            "args": self.cleaned_data["args"],
            "state": self.cleaned_data["state"],
            "confirmation": self.cleaned_data["confirmation"],
            "time_limit_s": self.cleaned_data["seconds"],
        }

    def _refuse_unknown_names(self) -> None:
        """Refuse arguments that the schema does not name, of which the form has no field."""
        names = set(_list_names(self.arguments))
        for name in self.data:
            if name.startswith(ARGUMENT_PREFIX) and name not in names and self.data[name]:
                unknown = name.removeprefix(ARGUMENT_PREFIX)[:MAX_SHOWN_NAME]
                self.add_error(None, f"{unknown}: the tool has no such parameter. Reload the page.")


def _list_names(fields: list[FormField] | tuple[FormField, ...]) -> list[str]:
    return [name for field in fields for name in (field.input_name, *_list_names(field.fields))]
