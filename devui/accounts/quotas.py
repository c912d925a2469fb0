"""Quotas of users: how many runs they may start, and how much they may spend.

`sessions_app.quotas.quota_enforcement` counts and enforces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import transaction

from devui.accounts import users
from devui.accounts.models import Quota
from sessions_app.quotas import quota_enforcement
from sessions_app.quotas.active_runs import find_active_apps_by_person
from sessions_app.quotas.quota_enforcement import QuotaUse
from sessions_app.quotas.quota_limits import QuotaLimits
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound
from sessions_app.store.ids import check_id, is_storable

LIMITS = ("runs_at_once", "runs_a_day", "tokens_a_day", "cost_a_day")
MAX_RUNS = 2**31 - 1
MAX_AMOUNT = 2**53
"""Largest limits of runs, and of tokens and cost."""


def find_limits(person: str, app_name: str | None = None) -> list[QuotaLimits]:
    """Return the limits of a person in each app (or only `app_name`), and in all apps together. One query.

    Limits of the person replace those of every user with the same app. Without DEVUI_USERS there are none.
    """
    if not settings.DEVUI_USERS:
        return []
    rows = Quota.objects.filter(person__in=("", person))
    if app_name is not None:
        rows = rows.filter(app__in=("", app_name))
    return _combine_limits(rows)


def find_quota_uses(person: str) -> list[QuotaUse]:
    """Return the quotas that apply to a person with what is used of them; first that of all apps together."""
    return quota_enforcement.compare_usage(person, find_limits(person), quota_enforcement.usage_today(person))


def find_uses_by_person(quotas: Sequence[Quota]) -> list[tuple[str, list[QuotaUse]]]:
    """Return what each person has used today of these quotas, those who have used most first. Two queries.

    Lists all persons who have used something today or have a quota of their own, each with a first entry for all apps.
    """
    usages, active = quota_enforcement.usage_today_by_person(), find_active_apps_by_person()
    persons = {*usages, *active, *(quota.person for quota in quotas if quota.person)}
    uses = []
    for person in persons:
        limits = _combine_limits(quota for quota in quotas if quota.person in ("", person))
        if not limits or limits[0].app:
            limits.insert(0, QuotaLimits())
        matched = quota_enforcement.match_usage(limits, usages.get(person, {}), active.get(person, []))
        uses.append((person, matched))
    return sorted(uses, key=lambda item: (*(-amount for amount in reversed(item[1][0].used)), item[0]))


def list_quotas() -> list[Quota]:
    """Return all quotas; first those that apply to every user."""
    return list(Quota.objects.order_by("person", "app"))


def find_quota(pk: int) -> Quota:
    """Return a quota.

    Raises:
        NotFound: there is none.
    """
    quota = Quota.objects.filter(pk=pk).first()
    if quota is None:
        raise NotFound("There is no such quota.", hint="It was removed. Load the page again.")
    return quota


def create_quota(person: str, app: str, limits: Mapping[str, Any]) -> None:
    """Create a quota; see `set_quota`.

    Raises:
        AlreadyExists: there is one.
        NotFound, BadInput: see `set_quota`.
    """
    with transaction.atomic():
        if Quota.objects.filter(person=person, app=app).exists():
            raise AlreadyExists(
                f"There is a quota of {describe(person, app)} already.", hint="Change that one instead."
            )
        set_quota(person, app, limits)


def set_quota(person: str, app: str, limits: Mapping[str, Any]) -> None:
    """Set limits of a quota; others stay. A quota without any limit is removed.

    Args:
        person: name of the user; empty: every user.
        app: name of the app; empty: all apps together.
        limits: new values by their names in `LIMITS`; None: no limit, or for a user the limit of every user.

    Raises:
        NotFound: there is no such user.
        BadInput: a limit is negative, not finite or too large, or the name of the app cannot be stored.
    """
    _check_limits(limits)
    check_id("app", app)
    if person and not (is_storable(person) and users.select_users().filter(username=person).exists()):
        raise NotFound(f"There is no user {person!r}.", hint="An empty name sets the quota of every user.")
    with transaction.atomic():
        Quota.objects.update_or_create(person=person, app=app, defaults=limits)
        Quota.objects.filter(**dict.fromkeys(LIMITS)).delete()


def remove_quota(person: str, app: str) -> None:
    """Remove a quota.

    Raises:
        NotFound: there is none.
    """
    deleted, _ = Quota.objects.filter(person=person, app=app).delete()
    if not deleted:
        raise NotFound(
            f"There is no quota of {describe(person, app)}.", hint="`python manage.py quota` lists all."
        )


def describe(person: str, app: str) -> str:
    """Return in words whose quota it is, and where."""
    return f"{person or 'every user'} in {app or 'all apps'}"


def describe_change(person: str, app: str, limits: Mapping[str, Any] | None = None) -> str:
    """Return a change of a quota for the audit log. `limits`: the new ones; None: it is removed."""
    changes = [f"{name}={'none' if value is None else value}" for name, value in (limits or {}).items()]
    return f"{describe(person, app)}: {'removed' if limits is None else ', '.join(changes)}"


def describe_limits(quota: Quota) -> str:
    """Return the limits of a quota in words."""
    limits = {name: getattr(quota, name) for name in LIMITS}
    words = [f"{value:,} {name.replace('_', ' ')}" for name, value in limits.items() if value is not None]
    return ", ".join(words) or "no limit"


def _combine_limits(quotas: Iterable[Quota]) -> list[QuotaLimits]:
    """Return the limits of a user in each app, from the quotas of every user and the user's own."""
    limits: dict[str, QuotaLimits] = {}
    for quota in sorted(quotas, key=lambda quota: (quota.app, quota.person)):
        limits_set = {name: value for name in LIMITS if (value := getattr(quota, name)) is not None}
        limits[quota.app] = replace(limits.get(quota.app, QuotaLimits(quota.app)), **limits_set)
    return list(limits.values())


def _check_limits(limits: Mapping[str, Any]) -> None:
    for name, value in limits.items():
        largest = MAX_RUNS if name.startswith("runs") else MAX_AMOUNT
        if value is not None and not 0 <= value <= largest:  # also refuses NaN
            raise BadInput(
                f"{name} is {value}, which is not from 0 to {largest:,}.", hint="Leave it out for no limit."
            )
