"""Complete routers of the app: ADK's own paths (`adk`) and DevUI's API (`v1`)."""

from sessions_app.api import expiry, runtime_paths, tools, unsupported
from sessions_app.api.adk import router as adk
from sessions_app.api.v1 import router as v1

adk.add_router("", runtime_paths.router)
adk.add_router("", unsupported.router)
v1.add_router("", expiry.router)
v1.add_router("", tools.router)

__all__ = ["adk", "v1"]
