"""Claims: what a provider states about a person. Verifies its ID tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.jwk import KeySet

from devui.accounts.oidc.errors import ProviderFault, SignInRefused
from devui.config.single_sign_on import OidcProvider
from sessions_app.roles import Role

LEEWAY_S = 60
"""Seconds by which the clocks of the provider and of this machine may differ."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures that need the provider's private key."""

MAX_SUBJECT = 255

MAX_TIME = 253_402_300_800
"""Seconds from the epoch to the year 10000."""


@dataclass(frozen=True, slots=True)
class OidcIdentity:
    """A person whom a provider has signed in.

    Attributes:
        subject: the provider's unchanging id of the person.
        role: the highest role by the person's groups; None if no group has one.
    """

    issuer: str
    subject: str
    name: str
    role: Role | None


def verify_id_token(
    provider: OidcProvider, issuer: str, keys: dict[str, Any], id_token: str, nonce: str
) -> dict[str, Any]:
    """Return the claims of an ID token.

    Args:
        issuer: the issuer as the provider writes it.
        keys: the provider's JSON Web Key Set.

    Raises:
        ProviderFault: signature, issuer, audience, time or nonce is wrong or of another type.
    """
    registry = jwt.JWTClaimsRegistry(
        leeway=LEEWAY_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": provider.client_id},
        exp={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        signing_keys = [key for key in keys["keys"] if key.get("use") != "enc"]
        token = jwt.decode(id_token, KeySet.import_key_set({"keys": signing_keys}), ALGORITHMS)
        registry.validate(token.claims)
    except Exception as error:  # keys and token are whatever the provider sent
        raise ProviderFault(f"The provider sent an ID token that is not valid: {error}.") from error
    if token.claims.get("azp", provider.client_id) != provider.client_id:
        raise ProviderFault("The provider sent an ID token that is not valid: it is for another client.")
    if not all(isinstance(token.claims[name], str) for name in ("iss", "sub", "nonce")):
        raise ProviderFault(
            "The provider sent an ID token that is not valid: iss, sub or nonce is not a string."
        )
    if not 0 < token.claims["exp"] < MAX_TIME:
        raise ProviderFault("The provider sent an ID token that is not valid: exp is not a time.")
    return token.claims


def add_user_info(claims: dict[str, Any], user_info: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of an ID token and, for those that it lacks, of the user info.

    Whether an email address is verified is stated by whoever states the address (OpenID Connect Core, 5.1).
    """
    stating_email = claims if "email" in claims else user_info
    return {**user_info, **claims, "email_verified": stating_email.get("email_verified")}


def missing_claims(provider: OidcProvider, claims: dict[str, Any]) -> set[str]:
    """Return the names of the claims that DevUI uses and that are missing."""
    names = {provider.name_claim}
    if provider.group_roles:
        names.add(provider.group_claim)
    return names - set(claims)


def read_identity(provider: OidcProvider, claims: dict[str, Any]) -> OidcIdentity:
    """Return the person with these claims.

    Raises:
        ProviderFault: the id or the name of the person is not valid.
        SignInRefused: the person has no name, or an email address that is not verified.
    """
    subject, name = claims["sub"], claims.get(provider.name_claim)
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isprintable():
        raise ProviderFault("The provider sent an id of the person that is not valid.")
    if isinstance(name, str) and not name.isprintable():
        raise ProviderFault("The provider sent a name of the person that is not valid.")
    if not isinstance(name, str) or not name:
        raise SignInRefused(
            f"{provider.label} did not send your {provider.name_claim}.",
            hint="An admin of this server can choose another claim: DEVUI_OIDC_NAME_CLAIM.",
        )
    if provider.name_claim == "email" and claims.get("email_verified") not in (True, "true"):
        raise SignInRefused(
            f"{provider.label} has not verified your email address.",
            hint="Verify it there, and sign in again.",
        )
    role = _highest_role(provider, claims.get(provider.group_claim))
    return OidcIdentity(provider.issuer, subject, name, role)


def _highest_role(provider: OidcProvider, groups: object) -> Role | None:
    names = groups if isinstance(groups, list) else [groups]
    return max(
        (Role.of(role) for group, role in provider.group_roles.items() if group in names), default=None
    )
