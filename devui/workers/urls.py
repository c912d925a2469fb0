"""URLs of the workers' pages, imported only with `DEVUI_ENGINE`."""

from sessions_app.http import LazyRoute

urlpatterns = [
    LazyRoute("workers/", "devui.workers.views.workers", "workers"),
    LazyRoute("workers/<str:worker_id>/drain/", "devui.workers.views.drain", "worker-drain"),
    LazyRoute("workers/<str:worker_id>/remove/", "devui.workers.views.remove", "worker-remove"),
]
