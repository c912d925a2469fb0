"""URLs of DevUI."""

from django.apps import apps
from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from devui.apis.urls import ADK, V1, ApiUrls
from sessions_app.roles import PUBLIC, READ
from sessions_app.routes import Route, list_rules


def _login_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses of logins and users; none in a project that mounts DevUI, which has its own."""
    return [path("", include("devui.accounts.urls"))] if apps.is_installed("devui.accounts") else []


def _worker_urls() -> list[URLPattern | URLResolver]:
    """Return the addresses of the workers' pages; none if this server runs its agents itself."""
    return [path("", include("devui.workers.urls"))] if getattr(settings, "DEVUI_ENGINE", "") else []


PAGES: list[URLPattern | URLResolver] = [
    Route("", "devui.web.views.home", "home", get=READ),
    Route("go/", "devui.web.views.go", "devui-go", get=READ),
    *_login_urls(),
    *_worker_urls(),
    Route("ready", "devui.monitoring.ready", "ready", get=PUBLIC),
    Route("metrics", "devui.monitoring.metrics", "metrics", get=READ),
    Route(
        "mcp", "devui.mcp.views.serve", "mcp", post=READ
    ),  # tools that write call routes with rules of their own
    path("", include("devui.web.adk_front_end")),
    path("", include("sessions_app.urls")),
    path("", include("evals_app.urls")),
]
list_rules(PAGES)  # refuses a route without rules; those of the APIs are checked when they are built

urlpatterns = [*PAGES, ApiUrls("api/v1/", V1), ApiUrls("", ADK)]

handler400 = handler403 = "devui.web.error_responses.answer_refusal"
handler404 = "devui.web.error_responses.handler404"
handler500 = "devui.web.error_responses.handler500"
