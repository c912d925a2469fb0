"""Tokens and quotas in DevUI's API."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from devui.accounts import guard, personal_tokens, quotas
from devui.accounts.roles import ADMINISTER, CREATE_TOKEN, REMOVE_QUOTA, REVOKE_TOKEN, SET_QUOTA
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ErrorBody, ExtendedRow
from sessions_app.http import note_object, person_name
from sessions_app.roles import Role
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import StorableText

router = Router(tags=["tokens"])
quota_router = Router(tags=["quotas"])


class TokenIn(Schema):
    """A new token."""

    model_config = ConfigDict(extra="forbid")

    name: StorableText = Field(min_length=1, max_length=100)
    role: Literal["reader", "runner", "admin"] = Field(description="At most the role of its user.")
    days: int | None = Field(default=90, ge=1, le=3650, description="Days until it expires; null: never.")


class TokenOut(Schema):
    """A token of the user, without its secret."""

    id: int
    name: str
    role: str = Field(validation_alias="get_role_display")
    created_at: float
    expires_at: float | None
    last_used_at: float | None


class NewTokenOut(TokenOut):
    """A new token, with its secret, which is shown only now."""

    token: str


class TokensOut(Schema):
    """The tokens of the user, the newest first."""

    tokens: list[TokenOut]


@router.get("", response={200: TokensOut, 404: ErrorBody})
async def list_tokens(request: HttpRequest) -> dict[str, Any]:
    """List your tokens, the newest first."""
    user = await units_of_work.read(guard.request_user, request)
    rows = await units_of_work.read(personal_tokens.list_tokens, user)
    return {"tokens": rows}


@router.post("", response={201: NewTokenOut, **REFUSALS})
@needs(post=CREATE_TOKEN)
async def create_token(request: HttpRequest, body: TokenIn) -> Status[NewTokenOut]:
    """Create a token. Its secret is in this response only.

    Raises:
        BadInput: the role exceeds the user's.
        AlreadyExists: the user has a token of this name.
    """
    user = await units_of_work.read(guard.request_user, request)
    note_object(request, body.name)
    role, max_role = Role.of(body.role), guard.highest_role(request)
    if role > max_role:
        raise BadInput(f"A token cannot have the role {body.role}.", hint=f"Your role is {max_role.label}.")
    text, row = await units_of_work.write(
        personal_tokens.create_token, user, body.name, role, body.days, guard.read_token_pk(request)
    )
    return Status(201, NewTokenOut.model_validate(ExtendedRow(row, token=text)))


@router.delete("/{int:token}", response={204: None, **REFUSALS})
@needs(delete=REVOKE_TOKEN)
async def revoke_token(request: HttpRequest, token: int) -> Status[None]:
    """Revoke a token of yours.

    Raises:
        NotFound: you have no such token.
    """
    user = await units_of_work.read(guard.request_user, request)
    note_object(request, await units_of_work.write(personal_tokens.revoke_token, user, token))
    return Status(204, None)


class LimitsOut(Schema):
    """Limits of a quota; null: no limit, or in a user's quota the limit of every user."""

    runs_at_once: int | None = Field(default=None, ge=0, description="Runs and eval runs that are active.")
    runs_a_day: int | None = Field(default=None, ge=0, description="Runs and eval runs a day, in UTC.")
    tokens_a_day: int | None = Field(default=None, ge=0)
    cost_a_day: float | None = Field(default=None, ge=0, description="In the currency of the price table.")


class QuotaIn(LimitsOut):
    """A quota: limits of the runs of a user, or of every user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    person: str = Field(default="", max_length=150, description="Name; empty: every user.")
    app: str = Field(default="", description="App; empty: all apps together.")


class QuotaOut(LimitsOut):
    """A quota: limits of the runs of a user, or of every user."""

    person: str
    app: str


class QuotasOut(Schema):
    """All quotas."""

    quotas: list[QuotaOut]


class OwnQuotaOut(Schema):
    """A quota that applies to you, and what you have used of it."""

    app: str = Field(validation_alias="limits.app", description="Empty: all apps together.")
    limits: LimitsOut
    active: int = Field(description="Active runs and eval runs; 0 if they are not limited.")
    runs: int = Field(validation_alias="used.runs", description="Of today, as tokens and cost.")
    tokens: int = Field(validation_alias="used.tokens")
    cost: float = Field(validation_alias="used.cost")


class OwnQuotasOut(Schema):
    """The quotas that apply to you."""

    quotas: list[OwnQuotaOut]


@quota_router.get("", response={200: QuotasOut, 404: ErrorBody})
@needs(get=ADMINISTER)
async def list_quotas(request: HttpRequest) -> dict[str, Any]:
    """List all quotas."""
    return {"quotas": await units_of_work.read(quotas.list_quotas)}


@quota_router.put("", response={200: QuotasOut, **REFUSALS})
@needs(put=SET_QUOTA)
async def set_quota(request: HttpRequest, body: QuotaIn) -> dict[str, Any]:
    """Set a quota. Limits that the body does not name stay; null removes one. Without any limit it is removed.

    Raises:
        NotFound: there is no such user.
        BadInput: a limit is out of range.
    """
    limits = body.dict(include=set(quotas.LIMITS), exclude_unset=True)
    note_object(request, quotas.describe_change(body.person, body.app, limits), app=body.app)
    await units_of_work.write(quotas.set_quota, body.person, body.app, limits)
    return await list_quotas(request)


@quota_router.delete("", response={204: None, **REFUSALS})
@needs(delete=REMOVE_QUOTA)
async def remove_quota(request: HttpRequest, person: str = "", app: str = "") -> Status[None]:
    """Remove a quota.

    Raises:
        NotFound: there is none.
    """
    note_object(request, quotas.describe_change(person, app), app=app)
    await units_of_work.write(quotas.remove_quota, person, app)
    return Status(204, None)


@quota_router.get("/mine", response={200: OwnQuotasOut, 404: ErrorBody})
async def list_own_quotas(request: HttpRequest) -> dict[str, Any]:
    """List the quotas that apply to you, with what you have used."""
    return {"quotas": await units_of_work.read(quotas.find_quota_uses, person_name(request))}
