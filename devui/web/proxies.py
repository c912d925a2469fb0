"""Client addresses behind proxies: forwarding headers count only from trusted proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from devui.web.origins import AsgiApp, AsgiScope

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
FROM_TRUSTED_PROXY = "devui.from_trusted_proxy"
"""Key of the scope of requests that a trusted proxy has sent."""

SCHEMES = {
    "websocket": {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"},
    "http": {"http": "http", "https": "https"},
}
"""Schemes of requests by their type and by what proxies call them; Traefik says `wss` of a socket, others `https`."""


class ForwardedClients:
    """ASGI middleware that takes a request's client and scheme from the headers of trusted proxies."""

    def __init__(self, app: AsgiApp, trusted: Iterable[str]) -> None:
        """Trust the proxies with these addresses or networks."""
        self.app = app
        self.trusted = [ipaddress.ip_network(entry) for entry in trusted]

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Pass a request on."""
        peer = scope.get("client")
        if self.trusted and peer and self._is_trusted(_parse_address(peer[0])):
            scope = {**scope, "client": (self._find_client(peer[0], scope), 0), FROM_TRUSTED_PROXY: True}
            schemes = _header_values(scope, b"x-forwarded-proto")
            scheme = SCHEMES[scope["type"]].get(schemes[-1].lower() if schemes else "")
            scope["scheme"] = scheme or scope["scheme"]
        await self.app(scope, receive, send)

    def _find_client(self, peer: str, scope: AsgiScope) -> str:
        """Return the right-most forwarded address that is no trusted proxy: clients can forge the ones to its left.

        An invalid address ends the search; the proxy that forwarded it counts as the client.
        """
        client = peer
        for forwarded in reversed(_header_values(scope, b"x-forwarded-for")):
            address = _parse_address(forwarded)
            if address is None:
                break
            client = str(address)
            if not self._is_trusted(address):
                break
        return client

    def _is_trusted(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self.trusted)


def trusted_proxy_header(scope: Mapping[str, Any], header: str) -> str:
    """Return the value of a header that a trusted proxy has set; empty if there is none, or more than one."""
    if not header or not scope.get(FROM_TRUSTED_PROXY):
        return ""
    values = [value for name, value in scope["headers"] if name.lower() == header.lower().encode("latin-1")]
    return values[0].decode("utf-8", "replace").strip() if len(values) == 1 else ""


def _header_values(scope: AsgiScope, header: bytes) -> Sequence[str]:
    """Return the values of a list header, over all its lines."""
    lines = (value.decode("latin-1") for name, value in scope["headers"] if name.lower() == header)
    return [part.strip() for line in lines for part in line.split(",")]


def _parse_address(text: str) -> Address | None:
    """Parse an address, without the port that some proxies add and the scope of IPv6; None if it is invalid."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address):
            return address.ipv4_mapped or ipaddress.IPv6Address(int(address))  # the number has no scope
        return address
    return None
