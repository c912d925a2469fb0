"""Settings of single sign-on by OpenID Connect."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from devui.config import hosts
from devui.config.environment import read_list, read_secret, read_text

DISCOVERY_PATH = "/.well-known/openid-configuration"
ROLES = ("reader", "runner", "admin")
"""Names of the roles of users, the least first."""


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """An OpenID Connect provider, and what its people may do here.

    Attributes:
        issuer: URL of the provider, without a trailing slash.
        label: its name on the sign-in page.
        scope: what the provider is asked for.
        name_claim: claim with the name of the user.
        group_claim: claim with the groups of the user.
        group_roles: roles by group; empty: groups do not matter.
        default_role: role of people without one by a group; empty: they are refused.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    label: str
    scope: str
    name_claim: str
    group_claim: str
    group_roles: Mapping[str, str]
    default_role: str

    @property
    def discovery_url(self) -> str:
        """Address of the provider's description."""
        return self.issuer + DISCOVERY_PATH


def read_provider(has_users: bool) -> OidcProvider | None:
    """Return the provider that the variables DEVUI_OIDC_… describe; None without an issuer.

    Raises:
        ImproperlyConfigured: a variable is missing or wrong.
    """
    issuer = read_text("DEVUI_OIDC_ISSUER").removesuffix(DISCOVERY_PATH).rstrip("/")
    if not issuer:
        return None
    provider = OidcProvider(
        issuer=issuer,
        client_id=read_text("DEVUI_OIDC_CLIENT_ID"),
        client_secret=read_secret("DEVUI_OIDC_CLIENT_SECRET"),
        label=read_text("DEVUI_OIDC_LABEL", "single sign-on"),
        scope=read_text("DEVUI_OIDC_SCOPE", "openid email profile"),
        name_claim=read_text("DEVUI_OIDC_NAME_CLAIM", "email"),
        group_claim=read_text("DEVUI_OIDC_GROUP_CLAIM", "groups"),
        group_roles=_read_group_roles("DEVUI_OIDC_GROUP_ROLES"),
        default_role=_read_role("DEVUI_OIDC_DEFAULT_ROLE"),
    )
    if problem := _find_problem(provider, has_users):
        raise ImproperlyConfigured(f"DEVUI_OIDC_ISSUER={issuer!r} {problem}.")
    return provider


def _find_problem(provider: OidcProvider, has_users: bool) -> str:
    if not has_users:
        return "needs DEVUI_USERS=1"
    if not is_safe_url(provider.issuer):
        return "is not an https:// URL. Example: https://accounts.google.com"
    if not provider.client_id or not provider.client_secret:
        return "needs DEVUI_OIDC_CLIENT_ID and DEVUI_OIDC_CLIENT_SECRET, or DEVUI_OIDC_CLIENT_SECRET_FILE"
    if importlib.util.find_spec("joserfc") is None:
        return 'needs joserfc, which is not installed: pip install "devui[sso]"'
    return ""


def is_safe_url(url: str) -> bool:
    """Tell whether a URL names a host that others cannot pose as: over TLS, or on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_valid = bool(host) and (parts.port or 1) > 0 and not (parts.query or parts.fragment)
    except ValueError:
        return False
    return is_valid and (parts.scheme == "https" or (parts.scheme == "http" and hosts.is_loopback(host)))


def _read_group_roles(name: str) -> dict[str, str]:
    pairs = [entry.rpartition("=") for entry in read_list(name)]
    roles = {group.strip(): role.strip() for group, _, role in pairs}
    if "" in roles or not set(roles.values()) <= set(ROLES):
        raise ImproperlyConfigured(
            f"{name}={read_text(name)!r} does not give groups one of the roles {', '.join(ROLES)}."
            " Example: devui-admins=admin,engineers=runner."
        )
    return roles


def _read_role(name: str) -> str:
    role = read_text(name)
    if role and role not in ROLES:
        raise ImproperlyConfigured(f"{name}={role!r} is not a role: use one of {', '.join(ROLES)}.")
    return role
