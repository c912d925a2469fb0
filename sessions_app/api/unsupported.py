"""ADK's paths for features that DevUI leaves to `adk`: telemetry consent, agent builder, deployment."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from sessions_app import roles
from sessions_app.api import request_bodies
from sessions_app.api.routing import Router, needs
from sessions_app.store.errors import BadInput, Forbidden

DEV = "/dev/apps/{seg:app_name}"
CONSENT_HEADER = "X-ADK-Telemetry-Request"

router = Router()


class Consent(BaseModel):
    """Body of the user's decision on whether ADK may report usage to Google."""

    telemetry: bool


@router.get("/config/telemetry")
async def telemetry(request: HttpRequest) -> dict[str, bool]:
    """Report that telemetry is off, so that ADK's front end does not ask for consent."""
    return {"telemetry": False}


@router.post("/config/telemetry")
@needs(post=roles.CHANGE_SETTINGS)
async def set_telemetry(request: HttpRequest) -> dict[str, bool]:
    """Accept the telemetry decision and ignore it: DevUI never reports usage."""
    if request.headers.get(CONSENT_HEADER) != "true":
        raise BadInput("Forbidden: missing required security header", hint=f"Send `{CONSENT_HEADER}: true`.")
    request_bodies.validate(request_bodies.parse(request), Consent)
    return {"telemetry": False}


@router.get(DEV + "/builder")
async def builder(request: HttpRequest, app_name: str) -> HttpResponse:
    """Return empty YAML, which tells ADK's front end that the agent is not editable."""
    return HttpResponse("", content_type="text/plain; charset=utf-8")


@router.post(DEV + "/builder/save")
@router.post(DEV + "/builder/cancel")
@needs(post=roles.CHANGE_SETTINGS)
async def change_agent(request: HttpRequest, app_name: str) -> None:
    """Refuse to write an agent or to discard a draft of one: DevUI has no drafts."""
    raise Forbidden(
        "DevUI does not edit agents: it runs the code in their folder.",
        hint="Edit the agent's files, or build it with `adk web`; the next run uses the changed files.",
    )


@router.get(DEV + "/deploy/defaults")
async def deploy_defaults(request: HttpRequest, app_name: str) -> None:
    """Refuse to return deployment defaults."""
    raise _deploying_unsupported()


@router.post(DEV + "/deploy/{seg:target}")
@needs(post=roles.CHANGE_SETTINGS)
async def deploy(request: HttpRequest, app_name: str, target: str) -> None:
    """Refuse to deploy an agent."""
    raise _deploying_unsupported()


def _deploying_unsupported() -> Forbidden:
    return Forbidden(
        "DevUI does not deploy agents.",
        hint="Use `adk deploy agent_engine`, `adk deploy cloud_run` or `adk deploy gke`.",
    )
