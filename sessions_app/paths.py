"""Ids in URL paths. Ids may contain any characters, including slashes, so path segments are percent-encoded.

ASGI servers decode `%2F` in `path`, where it is then indistinguishable from a separator. `RawPathSegments` rebuilds
`path` from `raw_path` with `%2F` and `%25` still encoded, and the `seg` converter decodes them. Plain `reverse()`
and `{% url %}` quote the percent sign twice; use `seg_reverse` and `{% seg_url %}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from django.urls import get_script_prefix, get_urlconf, register_converter, reverse

from sessions_app.store.errors import BadInput

if TYPE_CHECKING:  # servers load this module before Django is set up
    from sessions_app.store.models import AgentSession

AsgiScope = dict[str, Any]
UNQUOTED = "!$&'()*+,;=~:@"
"""Characters that Django does not quote in a path, except the slash."""

_HINTS = {
    "app": "GET /list-apps names the apps.",
    "session": "Choose an id without a slash. A session without events can be created, unless another service keeps"
    " the sessions.",
}

KEY_PREFIX = "id"
"""First segment of addresses with a session's primary key."""

AsgiApp = Callable[[AsgiScope, Any, Any], Awaitable[None]]


class RawPathSegments:
    """ASGI middleware that preserves `%2F` and `%25` of the raw path in `path`."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app

    async def __call__(self, scope: AsgiScope, receive: Any, send: Any) -> None:
        """Call the app, with a rebuilt path if necessary."""
        raw: bytes | None = scope.get("raw_path")
        if raw and (b"%2f" in raw.lower() or b"%25" in raw):
            escaped = raw.split(b"?")[0].decode("latin-1").replace("%2f", "%2F").replace("%25", "%2525")
            scope = {**scope, "path": unquote(escaped.replace("%2F", "%252F"))}
        await self.app(scope, receive, send)


class SegmentConverter:
    """Path converter of one id: any characters, or empty (ADK allows an empty user id)."""

    regex = "[^/]*"

    def to_python(self, value: str) -> str:
        """Decode the characters that `RawPathSegments` left encoded."""
        return value.replace("%2F", "/").replace("%2f", "/").replace("%25", "%")

    def to_url(self, value: str) -> str:
        """Encode the percent sign and the slash; `reverse` encodes the rest."""
        return value.replace("%", "%25").replace("/", "%2F")


class RestConverter(SegmentConverter):
    """Path converter of a name at the end of a path, which may contain slashes, such as an artifact's name."""

    regex = ".+"


register_converter(SegmentConverter, "seg")
register_converter(RestConverter, "rest")


def seg_reverse(name: str, **kwargs: Any) -> str:
    """Return the URL of a route with `seg` parts. Undoes the second quoting of percent signs by `reverse`."""
    return reverse(name, kwargs=kwargs).replace("%25", "%")


def fixed_url(name: str) -> str:
    """Return the URL of a route without parameters, like `reverse` but cached."""
    return _fixed_url(name, get_script_prefix(), get_urlconf())


@lru_cache(maxsize=256)
def _fixed_url(name: str, prefix: str, urlconf: str | None) -> str:
    return reverse(name, urlconf)


def url_by_key(name: str, pk: int) -> str:
    """Return the URL of a route whose only parameter is `pk`, like `reverse` but cached for all keys."""
    before, after = _around_key(name, get_script_prefix(), get_urlconf())
    return f"{before}{pk}{after}"


@lru_cache(maxsize=256)
def _around_key(name: str, prefix: str, urlconf: str | None) -> tuple[str, str]:
    key = 2**63 - 1
    before, _, after = reverse(name, urlconf, kwargs={"pk": key}).partition(str(key))
    return before, after


def session_url(session: AgentSession) -> str:
    """Return the address of a session's page.

    It contains the primary key if the session has a realm, or ids that cannot be in an address: `.` and `..` are not
    allowed in a URL path, and an app named `id` would clash with the addresses by primary key.
    """
    ids = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.session_id}
    if session.realm or session.app_name == KEY_PREFIX or any(part in {".", ".."} for part in ids.values()):
        return url_by_key("session-by-pk", session.pk)
    return fixed_url("sessions") + "".join(f"{quote(part, safe=UNQUOTED)}/" for part in ids.values())


def upstream_path(app_name: str, user_id: str, session_id: str | None = None) -> str:
    """Return the path of a user's sessions, or of one session, on ADK's server, whose routes cannot match a slash.

    Raises:
        BadInput: an id contains a slash.
    """
    path = f"/apps/{quote_upstream('app', app_name)}/users/{quote_upstream('user', user_id)}/sessions"
    return path if session_id is None else f"{path}/{quote_upstream('session', session_id)}"


def upstream_artifact_path(app_name: str, user_id: str, session_id: str, name: str) -> str:
    """Return the path of an artifact on ADK's server. Its name may contain slashes.

    Segments of dots are quoted, because clients would resolve them.

    Raises:
        BadInput: an id holds a slash.
    """
    path = f"{upstream_path(app_name, user_id, session_id)}/artifacts"
    quoted = (part.replace(".", "%2E") if part in {".", ".."} else quote(part) for part in name.split("/"))
    return "/".join((path, *quoted))


def quote_upstream(parameter: str, value: str) -> str:
    """Return an id as a segment of a path of ADK's server; `parameter` is its name in routes, such as `app_name`.

    Raises:
        BadInput: the server's paths cannot hold the id.
    """
    name = parameter.removesuffix("_name").removesuffix("_id")
    if "/" in value or value in {"", ".", ".."}:
        raise BadInput(
            f"ADK's own server, which answers this, cannot be asked for the {name} {value!r}: its paths cannot"
            " hold this id.",
            hint=_HINTS.get(name, "Choose one without a slash that is neither empty nor dots."),
        )
    return quote(value, safe="")
