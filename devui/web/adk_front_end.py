"""ADK's own front end under `/dev-ui/`, from the installed `google-adk` package.

Its files are served in place and unchanged. Only its first page is edited while it is served, so that it loads nothing
from other hosts and its content security policy can be narrow.
"""

from __future__ import annotations

import importlib.util
import mimetypes
import re
from functools import cache
from pathlib import Path

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse

from sessions_app.roles import READ
from sessions_app.routes import Route
from sessions_app.store.errors import NotFound

INDEX = "index.html"
HASHED = re.compile(r"-[A-Z0-9]{8}\.\w+$")
"""File names that change with their content."""

FOREIGN_LINK = re.compile(r'\s*<link[^>]*href="https?:[^>]*>')
FOREIGN_FONT = re.compile(r"@font-face\s*\{[^}]*url\(https?:[^}]*\}")
LATE_STYLES = re.compile(r"""\s+media="print"\s+onload="[^"]*\"""")
"""Parts of the first page that load from other hosts, and the handler that applies its styles late."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "base-uri 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "script-src 'self' 'wasm-unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "worker-src 'self'",
    )
)
"""Everything from this server. WebAssembly draws the graphs; the libraries write styles into the page."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def front_end_folder() -> Path | None:
    """Return the folder of the installed front end; None if there is none. ADK is not imported for this."""
    spec = importlib.util.find_spec("google.adk")
    if spec is None or not spec.submodule_search_locations:
        return None
    browser = Path(next(iter(spec.submodule_search_locations))) / "cli" / "browser"
    return browser if (browser / INDEX).is_file() else None


def redirect_to_index(request: HttpRequest) -> HttpResponse:
    """Redirect to the first page, whose addresses are relative to a folder."""
    query = request.META.get("QUERY_STRING", "")
    return HttpResponseRedirect(reverse("front-end") + (f"?{query}" if query else ""))


def index(request: HttpRequest) -> HttpResponse:
    """Return the first page with its own policy.

    Raises:
        NotFound: the installed package has no front end.
    """
    headers = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-store",
        # A login in a window of its own comes back here and tells the window that opened it.
        "Cross-Origin-Opener-Policy": "unsafe-none",
    }
    return HttpResponse(_first_page(), headers=headers)


def runtime_config(request: HttpRequest) -> HttpResponse:
    """Return the server's address. Under a path it is absolute: the front end derives socket addresses from it."""
    root = reverse("home").rstrip("/")
    config = {"backendUrl": request.build_absolute_uri(root) if root else "", "telemetry": False}
    return JsonResponse(config, headers={"Cache-Control": "no-store"})


def logo(request: HttpRequest) -> HttpResponse:
    """Return that the front end keeps ADK's own logo."""
    return JsonResponse({"logo_text": None, "logo_image_url": None})


def serve_file(request: HttpRequest, name: str) -> HttpResponse:
    """Return a file of the front end. A missing file gives a 404 in its content type."""
    asset = _front_end_files().get(name)
    if asset is None:
        return HttpResponse(status=404, content_type=_content_type(Path(name)))
    response = HttpResponse(asset.read_bytes(), content_type=_content_type(asset))
    cache_control = "public, max-age=31536000, immutable" if HASHED.search(name) else "no-cache"
    response.headers["Cache-Control"] = cache_control
    return response


@cache
def _first_page() -> str:
    """Return the first page without references to other hosts."""
    index_file = _front_end_files().get(INDEX)
    if index_file is None:
        raise NotFound(
            "The installed google-adk has no front end.", hint="Install google-adk from its wheel on PyPI."
        )
    page = index_file.read_text(encoding="utf-8")
    for pattern in (FOREIGN_LINK, FOREIGN_FONT, LATE_STYLES):
        page = pattern.sub("", page)
    return page


@cache
def _front_end_files() -> dict[str, Path]:
    """Return the files by their names in addresses; no other file can be requested."""
    root = front_end_folder()
    if root is None:
        return {}
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}


def _content_type(file_path: Path) -> str:
    guessed = mimetypes.guess_type(file_path.name)[0]
    return TYPES.get(file_path.suffix) or guessed or "application/octet-stream"


urlpatterns = [
    Route("dev-ui", f"{__name__}.redirect_to_index", get=READ),
    Route("dev-ui/", f"{__name__}.index", "front-end", get=READ),
    Route("dev-ui/assets/config/runtime-config.json", f"{__name__}.runtime_config", get=READ),
    Route("dev-ui/config", f"{__name__}.logo", get=READ),
    Route("dev-ui/<path:name>", f"{__name__}.serve_file", get=READ),
]
