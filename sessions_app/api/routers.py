"""The routers of the sessions room: ADK's own paths (`adk`) and DevUI's (`v1`), with all that belongs to each."""

from sessions_app.api import expiry, runtime_paths, unsupported
from sessions_app.api.adk import router as adk
from sessions_app.api.v1 import router as v1

adk.add_router("", runtime_paths.router)
adk.add_router("", unsupported.router)
v1.add_router("", expiry.router)

__all__ = ["adk", "v1"]
