"""REST of the sessions room: ADK's own paths (`adk`) and DevUI's (`v1`), as routers of django-ninja.

ADK's paths answer as `adk api_server` does (`google/adk/cli/api_server.py`): paths, bodies, statuses and
`detail` are its own. What rows answer is answered here; what needs an agent, or ADK's own classes, is passed
on to ADK's server in the app's runtime process.
"""

from sessions_app.api import declined, expiry, upstream
from sessions_app.api.adk import router as adk
from sessions_app.api.v1 import router as v1

adk.add_router("", upstream.router)
adk.add_router("", declined.router)
v1.add_router("", expiry.router)

__all__ = ["adk", "v1"]
