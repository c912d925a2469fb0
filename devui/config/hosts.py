"""Names and addresses of hosts."""

from __future__ import annotations

import ipaddress

EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - a program can listen there, but no other can ask for it


def is_loopback(host: str) -> bool:
    """Tell whether a host can be reached only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_brackets(host: str) -> str:
    """Return a host as URLs contain it: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host
