"""The ASGI application of the web process."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "devui.settings")

import django

django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter
from django.conf import settings

from devui.web.body_admission import BodyAdmission
from devui.web.origins import SameOriginSockets
from devui.web.proxies import ForwardedClients
from sessions_app.paths import RawPathSegments


async def serve_socket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve a socket. The first one imports the routes: the first page does not need them."""
    from devui.web.socket_routes import router

    await router(scope, receive, send)


application = ForwardedClients(
    RawPathSegments(
        ProtocolTypeRouter(
            {
                "http": BodyAdmission(),
                "websocket": SameOriginSockets(
                    serve_socket,
                    for_programs={"/run_live", f"/{settings.DEVUI_URL_PREFIX.strip('/')}/run_live"},
                ),
            }
        )
    ),
    settings.DEVUI_TRUSTED_PROXIES,
)
