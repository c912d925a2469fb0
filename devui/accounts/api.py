"""Tokens in DevUI's API."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from devui.accounts import guard, tokens
from devui.accounts.models import Token
from devui.accounts.roles import Role
from sessions_app.errors import BadInput
from sessions_app.store import units_of_work

router = Router(tags=["tokens"])


class TokenIn(Schema):
    """A new token."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    role: Literal["reader", "runner", "admin"] = Field(description="At most the role of its user.")
    days: int | None = Field(default=90, ge=1, le=3650, description="Days until it expires; null: never.")


class TokenOut(Schema):
    """A token of the user, without its secret."""

    id: int
    name: str
    role: str
    created_at: float
    expires_at: float | None
    last_used_at: float | None


class NewTokenOut(TokenOut):
    """A new token, with its secret, which is shown only now."""

    token: str


class TokensOut(Schema):
    """The tokens of the user, the newest first."""

    tokens: list[TokenOut]


@router.get("", response=TokensOut)
async def list_tokens(request: HttpRequest) -> TokensOut:
    """List your tokens, the newest first."""
    user = await units_of_work.read(guard.find_user, request)
    rows = await units_of_work.read(tokens.tokens_of, user)
    return TokensOut(tokens=[TokenOut(**_fields(row)) for row in rows])


@router.post("", response={201: NewTokenOut})
async def create_token(request: HttpRequest, body: TokenIn) -> Status[NewTokenOut]:
    """Create a token. Its secret is in this response only.

    Raises:
        BadInput: the role exceeds the user's.
        AlreadyExists: the user has a token of this name.
    """
    user = await units_of_work.read(guard.find_user, request)
    role, max_role = Role.of(body.role), guard.highest_role(request)
    if role > max_role:
        raise BadInput(f"A token cannot have the role {body.role}.", hint=f"Your role is {max_role.label}.")
    text, row = await units_of_work.write(
        tokens.create_token, user, body.name, role, body.days, guard.expiry_of(request)
    )
    return Status(201, NewTokenOut(token=text, **_fields(row)))


@router.delete("/{int:token}", response={204: None})
async def revoke_token(request: HttpRequest, token: int) -> Status[None]:
    """Revoke a token of yours.

    Raises:
        NotFound: you have no such token.
    """
    user = await units_of_work.read(guard.find_user, request)
    await units_of_work.write(tokens.revoke_token, user, token)
    return Status(204, None)


def _fields(row: Token) -> dict[str, Any]:
    names = ("id", "name", "created_at", "expires_at", "last_used_at")
    return {name: getattr(row, name) for name in names} | {"role": row.get_role_display()}
