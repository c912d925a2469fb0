"""Routes of sockets, imported with the first socket. The guard of the login is around each."""

from __future__ import annotations

from channels.routing import URLRouter
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.urls import URLPattern, path, re_path
from django.utils.module_loading import import_string

from evals_app.live import websocket_urlpatterns as eval_sockets
from sessions_app.api.live import run_live
from sessions_app.live.consumers import websocket_urlpatterns as session_sockets
from sessions_app.roles import RUN
from sessions_app.routes import list_rules, socket_route

routes = [*session_sockets, *eval_sockets, socket_route("run_live", run_live, RUN)]
list_rules(routes)  # refuses a route without rules
guard = import_string(settings.DEVUI_SOCKET_GUARD)
sockets = URLRouter([URLPattern(route.pattern, guard(route.callback), name=route.name) for route in routes])
prefix = settings.DEVUI_URL_PREFIX.strip("/")
"""Some proxies keep the prefix in the path, some strip it. Sockets accept both."""

router = URLRouter([path(f"{prefix}/", sockets), path("", sockets), re_path("", WebsocketDenier.as_asgi())])
