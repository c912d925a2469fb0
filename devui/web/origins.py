"""Which hosts and origins may speak to DevUI: its own, and those that DEVUI_ALLOW_ORIGINS names.

The rules are those of ADK's server (`google/adk/cli/api_server.py`, `_parse_cors_origins`,
`_is_request_origin_allowed`): an entry is an origin as browsers write it, `regex:` and a pattern that the
whole origin matches, or `*`. A page that rebinds a name of its own to this machine is stopped by
ALLOWED_HOSTS.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http.request import split_domain_port, validate_host

REGEX_MARK = "regex:"
ANY_ORIGIN = "*"

AsgiScope = dict[str, Any]
AsgiApp = Callable[[AsgiScope, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class AllowedOrigins:
    """The foreign origins that may read and write, as DEVUI_ALLOW_ORIGINS names them."""

    literal: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    def covers(self, origin: str) -> bool:
        """Tell whether an Origin header names one of them."""
        if ANY_ORIGIN in self.literal or origin in self.literal:
            return True
        return any(pattern.fullmatch(origin) for pattern in self.patterns)


@lru_cache(maxsize=16)
def parse_origins(entries: tuple[str, ...]) -> AllowedOrigins:
    """Read the entries of DEVUI_ALLOW_ORIGINS.

    Raises:
        ImproperlyConfigured: a pattern is no regular expression.
    """
    literal, patterns = set(), []
    for entry in entries:
        if not entry.startswith(REGEX_MARK):
            literal.add(entry)
            continue
        try:
            patterns.append(re.compile(entry.removeprefix(REGEX_MARK)))
        except re.error as error:
            raise ImproperlyConfigured(
                f"DEVUI_ALLOW_ORIGINS: {entry!r} holds no regular expression ({error})."
            ) from error
    return AllowedOrigins(frozenset(literal), tuple(patterns))


def is_foreign(origin: str, scheme: str, host: str) -> bool:
    """Tell whether an Origin header names neither the server itself nor an allowed origin."""
    if origin.lower() == f"{scheme}://{host}".lower():
        return False
    return not allowed_origins().covers(origin)


def allowed_origins() -> AllowedOrigins:
    """Return the foreign origins that are allowed by the settings in force."""
    return parse_origins(tuple(getattr(settings, "DEVUI_ALLOW_ORIGINS", ())))


def is_known_host(host: str) -> bool:
    """Tell whether a Host header names this server (ALLOWED_HOSTS, as Django reads it)."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


class SameOriginSockets:
    """ASGI wrapper of sockets: a browser lets any page open one, so Host and Origin are checked before it
    opens.

    Channels' validator accepts every port of a known host; here the Origin must be the server's own or an
    allowed one. A handshake without an Origin is refused, because scripts send one, except at the paths of
    `for_programs`, which other programs than browsers use too.
    """

    def __init__(self, app: AsgiApp, for_programs: Collection[str] = ()) -> None:
        self.app = app
        self.for_programs = for_programs

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass the socket on, or deny the handshake (403)."""
        app = self.app if self._may_open(scope) else WebsocketDenier()
        await app(scope, receive, send)

    def _may_open(self, scope: Mapping[str, Any]) -> bool:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope.get("headers", []):
            headers.setdefault(name.lower(), []).append(value)
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        if len(hosts) != 1 or len(origins) > 1 or not is_known_host(host := hosts[0].decode("latin-1")):
            return False
        if not origins:
            return scope.get("path") in self.for_programs
        scheme = "https" if scope.get("scheme") in {"wss", "https"} else "http"
        return not is_foreign(origins[0].decode("latin-1"), scheme, host)
