"""The two APIs: ADK's own paths at the root, DevUI's under /api/v1/. The rooms bring the operations."""

from __future__ import annotations

from typing import Any, cast

from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.docs import Swagger
from ninja.parser import Parser
from ninja.types import DictStrAny

from devui.errors import answer_error
from devui.mount import V1
from evals_app import adk_api as adk_evals
from evals_app import api as evals
from sessions_app import api as sessions
from sessions_app import bodies


class BodyParser(Parser):
    """Parses bodies of JSON; of large ones it takes what `LargeBodies` has parsed."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        """Return the body's JSON."""
        return cast(DictStrAny, bodies.parse_json(request))


class AdkAPI(NinjaAPI):
    """Answers under the content type of ADK's server, which names no charset: JSON has but one."""

    def get_content_type(self) -> str:
        """Return the content type of what operations return."""
        return self.renderer.media_type or "application/json"


adk = AdkAPI(
    title="ADK's API", urls_namespace="devui-adk", openapi_url=None, docs_url=None, parser=BodyParser()
)
adk.add_router("", sessions.adk)
adk.add_router("", adk_evals.router)

v1 = NinjaAPI(
    title="DevUI",
    version="1",
    urls_namespace=V1,
    parser=BodyParser(),
    description="Sessions, events, state, runs and evals. Errors have the shape {detail, code, hint}.",
    docs=Swagger({"validatorUrl": None}),  # ninja brings Swagger's files; its validator is a foreign service
)
v1.add_router("", sessions.v1)
v1.add_router("/evals", evals.router)


def _answer(request: HttpRequest, error: Any) -> HttpResponse:
    return answer_error(request, error)


for api in (adk, v1):
    for kind in (Exception, Http404, HttpError, ValidationError):
        api.add_exception_handler(kind, _answer)
