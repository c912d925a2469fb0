"""The ASGI application of the web process."""

from __future__ import annotations

import os
from typing import Any, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "devui.settings")

from django.core.asgi import get_asgi_application

django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - after Django is set up
from channels.security.websocket import WebsocketDenier  # noqa: E402 - after Django is set up
from django.conf import settings  # noqa: E402 - after Django is set up
from django.urls import path, re_path  # noqa: E402 - after Django is set up

from devui.web.body_admission import BodyAdmission  # noqa: E402 - after Django is set up
from devui.web.login.guard import LoginSockets  # noqa: E402 - after Django is set up
from devui.web.origins import SameOriginSockets  # noqa: E402 - after Django is set up
from devui.web.proxies import ForwardedClients  # noqa: E402 - after Django is set up
from evals_app.live import websocket_urlpatterns as eval_sockets  # noqa: E402 - after Django is set up
from sessions_app.api.live import run_live  # noqa: E402 - after Django is set up
from sessions_app.live.routing import websocket_urlpatterns as session_sockets  # noqa: E402 - after Django is set up
from sessions_app.paths import RawPathSegments  # noqa: E402 - after Django is set up

sockets = URLRouter([*session_sockets, *eval_sockets, path("run_live", cast(Any, run_live))])
prefix = settings.DEVUI_URL_PREFIX.strip("/")
"""Some proxies keep the prefix in the path, some strip it. Sockets accept both."""

application = ForwardedClients(
    RawPathSegments(
        ProtocolTypeRouter(
            {
                "http": BodyAdmission(django_application),
                "websocket": SameOriginSockets(
                    LoginSockets(
                        URLRouter(
                            [path(f"{prefix}/", sockets), path("", sockets), re_path("", WebsocketDenier())]
                        )
                    ),
                    for_programs={"/run_live", f"/{prefix}/run_live"},
                ),
            }
        )
    ),
    settings.DEVUI_TRUSTED_PROXIES,
)
