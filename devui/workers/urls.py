"""URLs of the workers' pages, imported only with `DEVUI_ENGINE`."""

from devui.workers.roles import DRAIN, REMOVE
from sessions_app.roles import READ
from sessions_app.routes import Route

urlpatterns = [
    Route("workers/", "devui.workers.views.workers", "workers", get=READ),
    Route("workers/<str:worker_id>/drain/", "devui.workers.views.drain", "worker-drain", post=DRAIN),
    Route(
        "workers/<str:worker_id>/remove/",
        "devui.workers.views.remove",
        "worker-remove",
        get=READ,
        post=REMOVE,
    ),
]
