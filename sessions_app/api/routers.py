"""The routers of the sessions room: ADK's own paths (`adk`) and DevUI's (`v1`), with all that belongs to each."""

from sessions_app.api import declined, expiry, upstream
from sessions_app.api.adk import router as adk
from sessions_app.api.v1 import router as v1

adk.add_router("", upstream.router)
adk.add_router("", declined.router)
v1.add_router("", expiry.router)

__all__ = ["adk", "v1"]
