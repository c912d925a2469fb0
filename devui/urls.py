"""URLs of DevUI."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from devui.apis.urls import ADK, V1, ApiUrls
from devui.web import views
from devui.web.login import views as login
from sessions_app.http import LazyRoute


def _login_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses of the users' login, or of the one with one password."""
    if getattr(settings, "DEVUI_USERS", False):
        return [path("", include("devui.accounts.urls"))]
    return [
        path("login/", login.sign_in, name="devui-login"),
        path("logout/", login.sign_out, name="devui-logout"),
    ]


def _worker_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses of the workers' pages; none if this server runs its agents itself."""
    return [path("", include("devui.workers.urls"))] if getattr(settings, "DEVUI_ENGINE", "") else []


urlpatterns = [
    path("", views.home, name="home"),
    path("go/", views.go, name="go"),
    *_login_urls(),
    *_worker_urls(),
    LazyRoute("ready", "devui.monitoring.ready", "ready"),
    LazyRoute("metrics", "devui.monitoring.metrics", "metrics"),
    path("", include("devui.web.adk_front_end")),
    path("", include("sessions_app.urls")),
    path("", include("evals_app.urls")),
    ApiUrls("api/v1/", V1),
    ApiUrls("", ADK),
]

handler400 = handler403 = "devui.web.error_responses.answer_refusal"
handler404 = "devui.web.error_responses.handler404"
handler500 = "devui.web.error_responses.handler500"
