"""Views of single sign-on: the redirect to the OpenID Connect provider, and the callback."""

from __future__ import annotations

import logging

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from devui.accounts import guard, logins
from devui.accounts.oidc import client, linked_users
from devui.accounts.oidc.client import ProviderClient
from devui.accounts.oidc.flow import AGE_S, SignInFlow, read_flow, sign_flow
from devui.config.single_sign_on import OidcProvider
from devui.web.login import throttling
from devui.web.login.sign_in_page import login_page, safe_path
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, NotFound

log = logging.getLogger(__name__)


@require_GET
async def begin_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the provider, and remember the sign-in in a cookie of the browser.

    Raises:
        NotFound: no provider is set up.
    """
    provider = _require_provider()
    next_path = safe_path(request.GET.get("next", ""))
    if guard.request_person(request) is not None:
        return HttpResponseRedirect(next_path, status=303)
    flow = SignInFlow(next_path)
    try:
        async with ProviderClient.open(provider) as oidc:
            url = oidc.authorization_url(flow, _callback_url(request))
    except DevUIError as error:
        return await _show_refusal(request, next_path, error)
    response = HttpResponseRedirect(url, status=303)
    response.headers["Cache-Control"] = "no-store"
    response.set_cookie(
        _cookie_name(),
        sign_flow(provider, flow),
        max_age=AGE_S,
        path=reverse("sso-callback"),
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",  # the browser returns from another site
    )
    return response


@sensitive_variables()
@require_GET
async def finish_sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in the person whom the provider names, or show why not.

    Raises:
        NotFound: no provider is set up.
    """
    provider = _require_provider()
    if guard.request_person(request) is not None:
        return HttpResponseRedirect(safe_path(""), status=303)
    next_path = ""
    try:
        cookie = request.COOKIES.get(_cookie_name(), "")
        flow = read_flow(provider, cookie, request.GET.get("state", ""))
        next_path = safe_path(flow.next_path)
        response: HttpResponse = HttpResponseRedirect(next_path, status=303)
        logins.set_cookie(request, response, await _sign_in(request, provider, flow))
    except DevUIError as error:
        response = await _show_refusal(request, next_path, error)
    response.delete_cookie(_cookie_name(), path=reverse("sso-callback"), samesite="Lax")
    return response


async def _sign_in(request: HttpRequest, provider: OidcProvider, flow: SignInFlow) -> str:
    """Return the cookie of a new login of the person whom the provider names."""
    address = request.META.get("REMOTE_ADDR", "")
    throttling.throttle.count(address)
    guard.note_sign_in(request, "")
    code = client.require_code(provider, request.GET.dict())
    async with ProviderClient.open(provider) as oidc:
        oidc.require_own_answer(request.GET.dict())
        identity = await oidc.fetch_identity(flow, code, _callback_url(request))
    guard.note_sign_in(request, identity.name)
    user = await units_of_work.write(linked_users.sign_in_identity, provider, identity)
    guard.note_sign_in(request, user.username)
    throttling.throttle.forget(address)
    return await units_of_work.write(logins.start_login, user)


async def _show_refusal(request: HttpRequest, next_path: str, error: DevUIError) -> HttpResponse:
    """Show the sign-in page with an error."""
    log.warning("Single sign-on failed: %s", error.message)
    return await login_page(request, next_path or safe_path(""), status=error.status, failure=error)


def _require_provider() -> OidcProvider:
    provider: OidcProvider | None = settings.DEVUI_OIDC
    if provider is None:
        raise NotFound(
            "This server has no single sign-on.", hint="An admin can set it up: DEVUI_OIDC_ISSUER."
        )
    return provider


def _callback_url(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("sso-callback"))


def _cookie_name() -> str:
    return f"{logins.cookie_name()}-sso"
