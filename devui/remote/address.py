"""Values of `--runtime NAME=URL`; error messages contain no passwords."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from devui.config import hosts
from sessions_app.store.errors import BadInput

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
HINT = "Write --runtime NAME=URL, such as --runtime go=http://127.0.0.1:8080/api."


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """Name and URL of a remote server.

    Attributes:
        url: without account, query and trailing slash.
        account: user and password for HTTP basic authentication, or None.
    """

    name: str
    url: str
    account: tuple[str, str] | None = None

    def authorization_headers(self) -> dict[str, str]:
        """Return the header of HTTP basic authentication; nothing without an account."""
        if self.account is None:
            return {}
        return {"Authorization": f"Basic {b64encode(':'.join(self.account).encode()).decode()}"}

    @classmethod
    def read(cls, value: str) -> RemoteAddress:
        """Parse `NAME=URL`.

        Raises:
            BadInput: the value is malformed. Messages contain no account.
        """
        name, separator, url = value.partition("=")
        if not separator or not NAME.fullmatch(name.strip()):
            raise BadInput(
                "--runtime needs a name of letters, digits, `_` and `-` before the URL.",
                hint=HINT,
            )
        name = name.strip()
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:  # its text may quote the password
            raise _bad_address(name, "the host or the port of its URL is malformed") from None
        if parts.scheme not in {"http", "https"} or not host:
            raise _bad_address(name, "its URL does not begin with http://HOST or https://HOST")
        if parts.query or parts.fragment:
            raise _bad_address(name, "its URL has a query or a fragment")
        port_text = f":{port}" if port is not None else ""
        base_url = f"{parts.scheme}://{hosts.in_brackets(host)}{port_text}{parts.path.rstrip('/')}"
        account = None
        if parts.username is not None:
            account = unquote(parts.username), unquote(parts.password or "")
        return cls(name, base_url, account)

    @classmethod
    def read_all(cls, value: Iterable[str]) -> list[RemoteAddress]:
        """Parse all values of `NAME=URL`.

        Raises:
            BadInput: a value is malformed, or two have the same name.
        """
        addresses: dict[str, RemoteAddress] = {}
        for address in map(cls.read, value):
            if address.name in addresses:
                raise _bad_address(address.name, "the name is used twice")
            addresses[address.name] = address
        return list(addresses.values())


def _bad_address(name: str, why: str) -> BadInput:
    return BadInput(f"--runtime {name}: {why}.", hint=HINT)
