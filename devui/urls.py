"""Every address DevUI answers on."""

from django.urls import include, path

from devui import api, front_end, views

urlpatterns = [
    path("", views.home, name="home"),
    path("go/", views.go, name="go"),
    path("dev-ui", front_end.redirect),
    path("dev-ui/", front_end.index, name="front-end"),
    path("dev-ui/assets/config/runtime-config.json", front_end.runtime_config),
    path("dev-ui/config", front_end.logo),
    path("dev-ui/<path:name>", front_end.file),
    path("", include("sessions_app.urls")),
    path("", include("evals_app.urls")),
    path("api/v1/", api.v1.urls),
    path("", api.adk.urls),
]

handler400 = "devui.errors.handler400"
handler403 = "devui.errors.handler403"
handler404 = "devui.errors.handler404"
handler500 = "devui.errors.handler500"
