"""REST of the sessions room: ADK's own paths (`adk`) and DevUI's (`v1`), as routers of django-ninja.

ADK's paths answer as `adk api_server` does (`google/adk/cli/api_server.py`): paths, bodies, statuses and
`detail` are its own. What rows answer is answered here; what needs an agent, or ADK's own classes, is passed
on to ADK's server in the app's runtime process.

Importing a module with operations builds the models of their parameters and answers, which takes longer than a page:
only `devui.apis.build` imports `routers`. What others need of this package (`live`, `snapshots`) has no operations.
"""
