"""The two APIs: ADK's paths at the root, DevUI's under /api/v1/. The apps provide the operations.

Building them takes as long as everything else for a page, so this module is imported at the first request to an API,
or after the first page; see `devui.serving.deferred_imports`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django.apps import apps
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, URLResolver
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.docs import Swagger
from ninja.parser import Parser
from ninja.types import DictStrAny

from devui.apis.urls import ADK, V1
from devui.web.error_responses import ErrorAnswer, error_response, problem_response
from evals_app import api as evals
from evals_app.api import adk as adk_evals
from sessions_app.api import request_bodies
from sessions_app.api import routers as sessions
from sessions_app.roles import READ
from sessions_app.routes import declare_rules, list_rules


class BodyParser(Parser):
    """Parses JSON bodies; for large ones it uses the result of `LargeBodies`."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        """Return the JSON of the body."""
        return cast(DictStrAny, request_bodies.parse_json(request))


class AdkAPI(NinjaAPI):
    """An API with the content type of ADK's server, which names no charset."""

    def get_content_type(self) -> str:
        """Return the content type of responses."""
        return self.renderer.media_type or "application/json"


class LocalSwagger(Swagger):
    """Swagger page in DevUI's theme, with django-ninja's own files of Swagger UI."""

    template = "devui/api_docs.html"

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Return the page."""
        page_settings = {**self.settings, "url": self.get_openapi_url(api, kwargs)}
        return render(request, self.template, {"swagger_settings": page_settings})


adk = AdkAPI(title="ADK's API", urls_namespace=ADK, openapi_url=None, docs_url=None, parser=BodyParser())
adk.add_router("", sessions.adk)
adk.add_router("", adk_evals.router)

v1 = NinjaAPI(
    title="DevUI",
    version="1",
    urls_namespace=V1,
    parser=BodyParser(),
    description="Sessions, events, state, runs and evals. Errors have the shape {detail, code, hint}.",
    docs=LocalSwagger({"validatorUrl": None}),  # Swagger's validator is an external service
)
v1.add_router("", sessions.v1)
v1.add_router("/evals", evals.router)
if apps.is_installed("devui.accounts"):
    from devui.accounts.api import quota_router
    from devui.accounts.api import router as tokens

    v1.add_router("/tokens", tokens)
    v1.add_router("/quotas", quota_router)
if getattr(settings, "DEVUI_ENGINE", ""):
    from devui.workers.api import router as workers

    v1.add_router("/workers", workers)


def _error_response(request: HttpRequest, error: Any) -> HttpResponse:
    if isinstance(error, ValidationError):
        hint = "Correct the fields in `detail`; `loc` is their position."
        faults = [{**fault, "loc": _fault_location(fault["loc"])} for fault in error.errors]
        return problem_response(request, ErrorAnswer(422, faults, "invalid", hint))
    if isinstance(error, HttpError):
        hint = "Send a JSON body in UTF-8."
        return problem_response(request, ErrorAnswer(error.status_code, error.message, "bad_input", hint))
    return error_response(request, error)


def _fault_location(loc: Sequence[str | int]) -> list[str | int]:
    """Return where a fault is, as FastAPI does: in bodies, django-ninja adds the name of the operation's parameter."""
    return [*loc[:1], *loc[2:]] if loc[0] == "body" else [*loc]


for api in (adk, v1):
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _error_response)


def _build_patterns(api: NinjaAPI) -> list[URLPattern | URLResolver]:
    """Return the URL patterns of an API; django-ninja adds those of its documentation."""
    patterns: list[URLPattern | URLResolver] = api.urls[0]
    for pattern in patterns:
        if isinstance(pattern, URLPattern) and pattern.lookup_str.startswith("ninja.openapi."):
            pattern.callback = declare_rules(require_safe(pattern.callback), {"GET": READ})
    list_rules(patterns)  # refuses a route without rules
    return patterns


PATTERNS = {api.urls_namespace: _build_patterns(api) for api in (adk, v1)}
"""URL patterns by namespace of the API."""
