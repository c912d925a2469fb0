"""Forms of the pages of account, users, quotas and audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

from django import forms

from devui.accounts.quotas import LIMITS, MAX_AMOUNT, MAX_RUNS
from sessions_app.forms.query import PageQuery
from sessions_app.roles import Role
from sessions_app.store.ids import ID_BYTES

DAYS = [("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"), ("", "never")]


class TokenForm(forms.Form):
    """A new token. `max_role` is the role of its user."""

    name = forms.CharField(max_length=100, label="Name")
    role = forms.TypedChoiceField(choices=Role.choices, coerce=lambda value: Role(int(value)), label="Role")
    days = forms.TypedChoiceField(
        choices=DAYS, required=False, coerce=int, empty_value=None, label="Expires", initial="90"
    )

    def __init__(self, *args: Any, max_role: Role, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.TypedChoiceField, self.fields["role"])
        field.choices = [(role.value, role.label) for role in Role if role <= max_role]


class RoleForm(forms.Form):
    """A role, in every app or, if `apps` names any of the known apps, only in these."""

    role = forms.TypedChoiceField(choices=Role.choices, coerce=lambda value: Role(int(value)), label="Role")
    apps = forms.MultipleChoiceField(
        required=False,
        label="Apps",
        error_messages={"invalid_choice": "There is no app %(value)r. Select apps of the list."},
    )

    def __init__(self, *args: Any, known_apps: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.MultipleChoiceField, self.fields["apps"])
        field.choices = [(name, name) for name in known_apps]


class NewUserForm(RoleForm):
    """A new user."""

    name = forms.CharField(max_length=150, label="Name")


class QuotaForm(forms.Form):
    """A quota. Without `person` and `app` it changes the limits of one that exists."""

    person = forms.CharField(required=False, max_length=150, label="User")
    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES, label="App")
    runs_at_once = forms.IntegerField(required=False, min_value=0, max_value=MAX_RUNS, label="Active runs")
    runs_a_day = forms.IntegerField(required=False, min_value=0, max_value=MAX_RUNS, label="Runs a day")
    tokens_a_day = forms.IntegerField(required=False, min_value=0, max_value=MAX_AMOUNT, label="Tokens a day")
    cost_a_day = forms.FloatField(required=False, min_value=0, max_value=MAX_AMOUNT, label="Cost a day")

    @property
    def limits(self) -> dict[str, float | int | None]:
        """The limits by their names; None: no limit."""
        return {name: self.cleaned_data[name] for name in LIMITS}

    def clean(self) -> dict[str, Any]:
        """Require a limit."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and all(cleaned[name] is None for name in LIMITS):
            raise forms.ValidationError("Set at least one limit. To lift all limits, remove the quota.")
        return cleaned


class AuditQuery(PageQuery):
    """Filters of the audit log; empty ones match all. Days are in UTC, `until` included."""

    person = forms.CharField(required=False, max_length=200)
    action = forms.CharField(required=False, max_length=40)
    object = forms.CharField(required=False, max_length=1_000)
    since = forms.DateField(required=False)
    until = forms.DateField(required=False)

    def clean_since(self) -> float | None:
        """Return the beginning of the day."""
        return _day_start(self.cleaned_data["since"])

    def clean_until(self) -> float | None:
        """Return the end of the day."""
        day = self.cleaned_data["until"]
        return _day_start(day + timedelta(days=1) if day and day < date.max else day)


class AuditExportQuery(AuditQuery):
    """Filters of an export of the audit log, and its format."""

    format = forms.ChoiceField(choices=[("jsonl", "JSON lines"), ("csv", "CSV")])


def _day_start(day: date | None) -> float | None:
    return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
