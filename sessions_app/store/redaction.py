"""Remove credentials from everything that leaves the store.

The rule for structured values is ADK's `_redact_credential_secrets` (`google/adk/auth/auth_credential.py`), repeated
here because the web process must not import ADK; a test compares both. In error texts, which ADK does not redact,
credentials are recognized by their form and by the names before them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_SECRET_FIELDS = (
    *("password", "token", "additionalHeaders", "clientSecret", "authResponseUri", "authCode", "accessToken"),
    *("refreshToken", "idToken", "codeVerifier", "privateKeyId", "privateKey", "apiKey"),
)
SECRET_KEYS = frozenset(
    {*_SECRET_FIELDS, *(re.sub("([A-Z])", r"_\1", name).lower() for name in _SECRET_FIELDS)}
)
"""Each field in camel and in snake case."""

_AUTH_TYPES = {
    "apiKey": "api_key",
    "http": "http",
    "oauth2": "oauth2",
    "openIdConnect": "open_id_connect",
    "serviceAccount": "service_account",
}
AUTH_TYPES = frozenset({*_AUTH_TYPES, *_AUTH_TYPES.values(), *map(str.upper, _AUTH_TYPES.values())})
REQUEST_CREDENTIAL = "adk_request_credential"
_CONFIG_KEYS = ("authConfig", "auth_config")
_REQUESTED_KEYS = ("requestedAuthConfigs", "requested_auth_configs")
_CREDENTIAL_KEYS = (
    "rawAuthCredential",
    "raw_auth_credential",
    "exchangedAuthCredential",
    "exchanged_auth_credential",
)
_CREDENTIAL_MARKERS = frozenset({"authType", "auth_type", "name", *_REQUESTED_KEYS, *_CREDENTIAL_KEYS})
"""A dict without any of these keys contains no credential of its own: a fast check for nearly all dicts."""


REDACTED = "[redacted]"

Redact = Callable[[Any], Any]
"""Returns a JSON value without credentials, such as `redact_texts`."""

_KEYS_IN_TEXT = re.compile(
    r"""
    (?<![\w-])(?:
        AIza[\w-]{20,}                              # Google
        | ya29\.[\w-]{10,}
        | sk-[\w-]{12,}                             # OpenAI, Anthropic and others
        | gh[opsur]_\w{20,}                         # GitHub
        | github_pat_\w{20,}
        | glpat-[\w-]{16,}
        | xox[abeprs]-[\w-]{10,}                    # Slack
        | A[KS]IA[A-Z0-9]{16}                       # AWS
        | eyJ[\w-]{8,400}\.[\w-]{8,}(?:\.[\w-]*)?  # JSON Web Tokens
    )
    """,
    re.VERBOSE,
)
"""API keys with a known prefix."""

_NAMES = r"(?:api[_-]?key|apikey|access[_-]?key|private[_-]?key|token|secret|password|passwd|credential|authorization)"
_CREDENTIAL_NAME = re.compile(rf"{_NAMES}$", re.IGNORECASE)

_NAMED_IN_TEXT = re.compile(
    rf"""
    (?P<name>
        {_NAMES}
        (?:=["']? | ["']\s*:\s*["'])
        | \bAuthorization:\s*(?:(?:Basic|Digest|Bearer|Token)\s+)?
        | \bBearer\s+
        | (?:api-?key|-subscription-key|-token|-secret):[ \t]*  # headers, such as `X-Auth-Token`
        | \b(?:Set-)?Cookie:[ \t]*[^\s=;]{{1,100}}=
        | [?&]key=
        | ://[^\s/:@]{{0,100}}:(?=[^\s/@]{{1,200}}@)
    )
    (?P<value>(?!(?:Basic|Digest|Bearer|Token)\s|None\b|True\b|False\b|null\b)[^\s"'&,;<>()\[\]{{}}@]{{6,}})
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Values after names of credentials: in URLs, headers, JSON, Python and shell code.

Repetitions before a possible mismatch are bounded, so that a hostile text takes linear time.
"""


_QUOTED_IN_TEXT = re.compile(
    rf"""
    (?P<name>{_NAMES}(?:["']\s*:\s*|=)(?P<quote>["']))
    (?:(?!(?P=quote))[^\\\n]|\\.){{6,1000}}
    (?=(?P=quote))
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Quoted values after names of credentials, which may contain spaces and any signs."""


def is_credential_name(name: str) -> bool:
    """Tell whether a value with this name, such as `user:password`, is a credential."""
    return _CREDENTIAL_NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Return an error text without the keys, tokens and passwords that libraries quote."""
    # What every match contains is looked for first: most texts, such as lines of a log, have none of it.
    if "'" in text or '"' in text:
        text = _QUOTED_IN_TEXT.sub(rf"\g<name>{REDACTED}", text)
    if "=" in text or ":" in text or "bearer" in text.lower():
        text = _NAMED_IN_TEXT.sub(rf"\g<name>{REDACTED}", text)
    return _KEYS_IN_TEXT.sub(REDACTED, text)


def redact_error_texts(value: Any) -> Any:
    """Return a JSON value in which all texts are redacted as error texts."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, list):
        return [redact_error_texts(item) for item in value]
    if isinstance(value, dict):
        return {key: redact_error_texts(item) for key, item in value.items()}
    return value


def redact_texts(value: Any, name: str = "") -> Any:
    """Return a JSON value without credentials in its texts. The name before a value, such as `password`, counts."""
    if isinstance(value, str):
        return REDACTED if value and is_credential_name(name) else redact_text(value)
    if isinstance(value, list):
        return [redact_texts(item, name) for item in value]
    if isinstance(value, dict):
        return {key: redact_texts(item, key) for key, item in value.items()}
    return value


def no_redaction(value: Any) -> Any:
    """Return a value as it is, for pages behind the login."""
    return value


def redact(value: Any) -> Any:
    """Return a JSON value without the secrets of credentials. Other values are unchanged."""
    if isinstance(value, list):
        return [redact(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _CREDENTIAL_MARKERS.isdisjoint(value):
        return {key: redact(item) for key, item in value.items()}
    auth_types = (value.get("authType"), value.get("auth_type"))
    if any(isinstance(name, str) and name in AUTH_TYPES for name in auth_types):
        return _strip_secrets(value)
    if value.get("name") == REQUEST_CREDENTIAL:
        return {key: _redact_credential_request(key, item) for key, item in value.items()}
    for carriers in (_REQUESTED_KEYS, _CREDENTIAL_KEYS):
        if any(key in value for key in carriers):
            return {
                key: _strip_secrets(item) if key in carriers else redact(item) for key, item in value.items()
            }
    return {key: redact(item) for key, item in value.items()}


def _redact_credential_request(key: str, item: Any) -> Any:
    if key == "args" and isinstance(item, dict):
        return {name: _strip_secrets(arg) if name in _CONFIG_KEYS else arg for name, arg in item.items()}
    return _strip_secrets(item) if key == "response" else redact(item)


def _strip_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip_secrets(item) for key, item in value.items() if key not in SECRET_KEYS}
    if isinstance(value, list):
        return [_strip_secrets(item) for item in value]
    return value


def without_password(url: str) -> str:
    """Return a URL without password and query, safe to show and store."""
    scheme, separator, address = url.partition("://")
    if not separator:
        return url.partition("?")[0].partition("#")[0]
    account, at_sign, host = address.rpartition("@")  # a password may have signs that end a host: /, ? and #
    if ":" not in account or address.startswith("/"):
        account, at_sign, host = "", "", address  # there is no password
    return f"{scheme}://{account.partition(':')[0]}{at_sign}{host.partition('?')[0].partition('#')[0]}"
