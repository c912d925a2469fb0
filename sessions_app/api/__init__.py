"""REST API of sessions: ADK's own paths (`adk`) and DevUI's (`v1`), as routers of django-ninja.

ADK's paths respond as `adk api_server` does (`google/adk/cli/api_server.py`): paths, bodies, statuses and `detail` are
its own. Requests that rows can answer are handled here; requests that need an agent or ADK's own classes are forwarded
to ADK's server in the app's runtime.

Importing a module with operations builds pydantic models of their parameters and responses, which takes longer than
rendering a page: only `devui.apis.build` imports `routers`. Modules that other packages need (`live`,
`snapshots`, `request_bodies`) have no operations.
"""
