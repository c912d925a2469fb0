"""Socket routes of `sessions_app`."""

from django.urls import URLPattern, path

from sessions_app.live.consumers import SessionSocket

websocket_urlpatterns: list[URLPattern] = [
    path("ws/sessions/<int:pk>/", SessionSocket.as_asgi(), name="session-socket"),
]
