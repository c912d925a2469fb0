"""Hosts and origins that may call DevUI: its own, and those in DEVUI_ALLOW_ORIGINS.

The rules are those of ADK's server (`google/adk/cli/api_server.py`, `_parse_cors_origins`,
`_is_request_origin_allowed`): an entry is an origin as browsers send it, `regex:` and a pattern for the whole origin,
or `*`. ALLOWED_HOSTS stops pages that rebind their own name to this machine.
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
    """The foreign origins of DEVUI_ALLOW_ORIGINS, which may read and write."""

    literal: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    def covers(self, origin: str) -> bool:
        """Tell whether the value of an Origin header is allowed."""
        if ANY_ORIGIN in self.literal or origin in self.literal:
            return True
        return any(pattern.fullmatch(origin) for pattern in self.patterns)


@lru_cache(maxsize=16)
def parse_origins(entries: tuple[str, ...]) -> AllowedOrigins:
    """Parse the entries of DEVUI_ALLOW_ORIGINS.

    Raises:
        ImproperlyConfigured: a pattern is not a regular expression.
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
                f"DEVUI_ALLOW_ORIGINS: {entry!r} is not a valid regular expression ({error})."
            ) from error
    return AllowedOrigins(frozenset(literal), tuple(patterns))


def is_foreign(origin: str, scheme: str, host: str) -> bool:
    """Tell whether an Origin header is neither the server's own nor an allowed one."""
    if origin.lower() == f"{scheme}://{host}".lower():
        return False
    return not allowed_origins().covers(origin)


def allowed_origins() -> AllowedOrigins:
    """Return the allowed foreign origins of the current settings."""
    return parse_origins(tuple(getattr(settings, "DEVUI_ALLOW_ORIGINS", ())))


def is_known_host(host: str) -> bool:
    """Tell whether a Host header names this server (ALLOWED_HOSTS, with Django's rules)."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


class SameOriginSockets:
    """ASGI middleware for sockets that checks Host and Origin of the handshake: browsers let any page open a socket.

    Unlike Channels' validator, which accepts every port of a known host, it requires the server's own or an allowed
    Origin. A handshake without Origin is refused, because browsers send one, except at the paths in `for_programs`.
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
