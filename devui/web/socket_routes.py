"""Routes of sockets, imported with the first socket."""

from typing import Any, cast

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import path, re_path

from evals_app.live import websocket_urlpatterns as eval_sockets
from sessions_app.api.live import run_live
from sessions_app.live.consumers import websocket_urlpatterns as session_sockets

sockets = URLRouter([*session_sockets, *eval_sockets, path("run_live", cast(Any, run_live))])
prefix = settings.DEVUI_URL_PREFIX.strip("/")
"""Some proxies keep the prefix in the path, some strip it. Sockets accept both."""

router = URLRouter([path(f"{prefix}/", sockets), path("", sockets), re_path("", WebsocketDenier.as_asgi())])
