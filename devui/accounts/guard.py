"""Guard of requests and sockets. With DEVUI_USERS=1 it requires a user with the role from the rule of the route.

Without users, the owner may send every request, or anybody if there is no owner; nothing is written to the audit log.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from devui.accounts import audit, owner, personal_tokens, persons, targets, users
from devui.accounts.audit import AuditedRequest
from devui.accounts.persons import ANYBODY, Person
from devui.web import error_responses
from devui.web.body_admission import find_pending_body
from devui.web.error_responses import ErrorAnswer
from devui.web.login import unauthenticated
from devui.web.login.revocation import answer_while_permitted
from devui.web.login.sockets import GuardedSockets
from devui.web.middleware import GetResponse, Middleware
from devui.web.origins import AsgiApp, AsgiScope
from devui.web.proxies import trusted_proxy_header
from sessions_app.http import Access, request_access, set_access
from sessions_app.http import HttpRequest as DevUIRequest
from sessions_app.roles import EXPORT, READ, AccessRule, Role
from sessions_app.routes import declared_rules, match_route, match_rule
from sessions_app.store import scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, Forbidden, StoreFault

log = logging.getLogger(__name__)

LOGIN_REQUIRED = replace(
    unauthenticated.LOGIN_REQUIRED,
    hint="In a browser, load the page again and sign in. Programs send `Authorization: Bearer TOKEN`: create a token at"
    " /account/. It may have expired or been revoked.",
)
BODILESS_METHODS = frozenset({"HEAD", "OPTIONS"})
"""Methods whose responses export nothing."""

USER_MODE_ROUTES = ("account/", "users/", "users.csv", "quotas/", "audit/", "api/v1/tokens", "api/v1/quotas")
"""Prefixes of the routes that only servers with users have."""

PERSON = "devui.person"
"""Key of the scope of sockets with the sender of the handshake."""

CLIENT_LEFT = 499
"""Status in the audit log of a request whose client left before the response: its effects stay."""

UNIDENTIFIED = "The store cannot tell who sends this request."

NO_USERS = ErrorAnswer(
    503,
    "Nobody can sign in yet: there is no active admin.",
    "no_users",
    "On the server's machine, create one: `python manage.py createuser NAME --role admin`.",
)


@dataclass(slots=True)
class SenderAccess(Access):
    """The access of a request by its sender.

    Attributes:
        person: its sender; None if unknown.
        rule: the rule for it.
        sign_in_name: the name with which the audit log lists it if it signs in.
        required_roles: the roles that were checked for it, each with its app.
    """

    person: Person | None = None
    rule: AccessRule = READ
    sign_in_name: str = ""
    required_roles: list[tuple[Role, str]] = field(default_factory=list)

    @classmethod
    def of(cls, person: Person | None) -> SenderAccess:
        """Return the access of a sender."""
        if person is None:
            return cls(is_stranger=True)
        return cls(
            is_authenticated=person is not ANYBODY,
            person_name=person.name,
            has_account=person.user_pk is not None,
            person=person,
        )

    def role_in(self, app: str) -> str:
        """Return the name of the role of the sender in an app; empty without users."""
        return self.person.role_in(app).label if self.person and settings.DEVUI_USERS else ""

    async def is_permitted(self, request: HttpRequest) -> bool:
        """Tell whether the login or token of the request is still valid, and its user still has the roles for it.

        True while the store does not answer: nobody can revoke them either, and runs outlast a restart of the store.
        """
        if self.person is None or self.person is ANYBODY:
            return True
        try:
            person = await _find_sender(request)
        except StoreFault:
            return True
        return person is not None and all(person.role_in(app) >= role for role, app in self.required_roles)


class RequestGuard(Middleware):
    """Requires a login, and the role that the request needs. Browsers are redirected to the sign-in page.

    A request is refused by its headers, then by its body, and ends when its sender loses the right.
    """

    sync_capable = False

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        if not iscoroutinefunction(get_response):
            raise TypeError("RequestGuard serves asynchronous requests only.")

    async def _answer_request(self, request: HttpRequest) -> HttpResponseBase:
        try:
            response = (
                await self.find_refusal(request)
                or await self._refuse_body(request)
                or await answer_while_permitted(request, self.get_response)
            )
        except asyncio.CancelledError:  # the client has left, which undoes nothing
            body = find_pending_body(request)
            if body is None or body.is_admitted:
                await asyncio.shield(_record_action(request, CLIENT_LEFT))
            raise
        await _record_action(request, response.status_code)
        return self.after(request, response)

    async def _refuse_body(self, request: HttpRequest) -> HttpResponseBase | None:
        """Read the body. Refuse one that exceeds a limit, or whose sender lost the right while it was sent."""
        body = find_pending_body(request)
        if body is None:
            return None
        if problem := await body.read(request, is_public=unauthenticated.is_public(request)):
            return error_responses.problem_response(request, problem)
        return None if body.was_prompt else await self.find_refusal(request)

    def after(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Send `Cache-Control: no-store` with authenticated responses that set none themselves."""
        if request_access(request).is_authenticated:
            response.headers.setdefault("Cache-Control", "no-store")
            patch_vary_headers(response, ["Cookie", "Authorization"])
        return response

    async def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        """Check the role of a request whose rule depends on its body; return the refusal, or None.

        Raises:
            Http404: the address is one of users, and this server has none.
        """
        if not settings.DEVUI_USERS:
            if request.resolver_match and request.resolver_match.route.startswith(USER_MODE_ROUTES):
                raise Http404
            return None
        try:
            return await self._find_refusal_by_body(request)
        except DevUIError as error:
            return error_responses.problem_response(request, error_responses.find_problem(error))

    async def _find_refusal_by_body(self, request: HttpRequest) -> HttpResponseBase | None:
        access = _user_access(request)
        rule, person, match = access.rule, access.person, match_route(request)
        if person is None or match is None:
            return None
        if rule.app_field:
            named = await units_of_work.read(targets.app_in_body, request, match.route, rule.app_field)
            access.app = named or ""
            return _check_role(request, person, rule, access.app)
        if rule.target_app_field:
            target = await units_of_work.read(
                targets.app_in_body, request, match.route, rule.target_app_field
            )
            return None if target == "" else _check_role(request, person, rule, target or "")
        if not rule.form_field:
            return None
        access.rule = rule.select_variant(request.POST.dict())
        access.objects = ", ".join(request.POST.getlist("session"))
        app = await units_of_work.read(targets.find_app, match.route, match.kwargs)
        return _check_role(request, person, access.rule, app)

    async def find_refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        """Check user and role of a request, as far as that does not depend on its body; return the refusal, or None."""
        try:
            return await self._find_refusal(request)
        except DevUIError as error:
            problem = error_responses.find_problem(error)
            is_open = not settings.DEVUI_USERS and owner.was_missing()
            if (
                request_person(request) is None and not is_open
            ):  # a stranger, perhaps: only the log names the store
                log.error("Nobody can be identified: %s", error.message)
                problem = replace(
                    problem, detail=UNIDENTIFIED, hint="The log of the server says why. Try again."
                )
            return error_responses.bare_response(request, problem)

    async def _find_refusal(self, request: HttpRequest) -> HttpResponseBase | None:
        is_file = request.path.startswith(settings.STATIC_URL)
        if is_file and unauthenticated.is_public(request):
            return None
        access = await _identify_sender(request)
        person = access.person
        match = None if is_file else match_route(request)
        rule = match_rule(match, request.method or "") if match else None
        access.rule = rule or READ
        if person is None:
            return await _refuse_unauthenticated(request, rule)
        if (
            match is None or not settings.DEVUI_USERS
        ):  # a file, no page has the address, or the owner may do everything
            return None
        if rule is None or person.role_in() >= rule.role or not person.has_app_roles:
            return _check_role(request, person, rule)
        if rule.app_field:  # `process_view` reads the app
            return None
        app = await units_of_work.read(targets.find_app, match.route, match.kwargs)
        return _check_role(request, person, rule, app)


class SocketGuard(GuardedSockets):
    """Opens sockets for users with the role, and closes them when their login ends."""

    def __init__(self, app: AsgiApp) -> None:
        self.rule = declared_rules(app)["GET"]
        super().__init__(partial(_serve_recorded, app, self.rule))

    async def may_open(self, scope: AsgiScope) -> bool:
        """Tell whether the sender of a handshake has the role for it; if not, write the audit entry."""
        person = None
        with suppress(DevUIError):
            person = scope[PERSON] = await _find_socket_sender(scope)
        if person is None or not _may_open(person, scope, self.rule):
            await _record_socket(scope, self.rule, 403)
            return False
        scope["devui_person"] = person.name
        return True

    async def may_stay(self, scope: AsgiScope) -> bool:
        """Tell whether the sender of a handshake still has the role; true while the store does not answer."""
        try:
            person = await _find_socket_sender(scope)
        except StoreFault:
            return True
        return person is not None and _may_open(person, scope, self.rule)


async def _refuse_unauthenticated(request: HttpRequest, rule: AccessRule | None) -> HttpResponseBase | None:
    """Return the refusal of a request without a login; None if its address needs none."""
    has_users = settings.DEVUI_USERS
    if (
        not has_users
        and unauthenticated.refuses_without_owner()
        and not await units_of_work.read(owner.exists)
    ):
        return error_responses.bare_response(request, unauthenticated.NO_LOGIN)
    if rule is not None and rule.is_public:
        return None
    if has_users and not await units_of_work.read(users.has_admin):
        return error_responses.bare_response(request, NO_USERS)
    return unauthenticated.login_required_response(
        request, LOGIN_REQUIRED if has_users else unauthenticated.LOGIN_REQUIRED
    )


def request_person(request: HttpRequest) -> Person | None:
    """Return the sender of a request; None if unknown."""
    return _user_access(request).person


def request_user(request: HttpRequest) -> User:
    """Return the user of a request.

    Raises:
        Forbidden: the request has the token of the owner, who has no account.
    """
    person = request_person(request)
    if person is None or person.user_pk is None:
        raise Forbidden("This token belongs to no user.", hint="Sign in as a user to see an account.")
    return User.objects.get(pk=person.user_pk)


def has_token(request: HttpRequest) -> bool:
    """Tell whether a program's token, instead of a login, authenticates a request."""
    person = request_person(request)
    return person is not None and bool(person.token)


def highest_role(request: HttpRequest) -> Role:
    """Return the highest role that the user of a request has in any app, at most that of the token."""
    person = request_person(request)
    return max(person.role_in(app) for app in ("", *person.roles)) if person else Role.READER


def read_token_pk(request: HttpRequest) -> int | None:
    """Return the key of the user's token with which a request came; None if it has none."""
    person = request_person(request)
    return person.token_pk if person else None


def note_sign_in(request: HttpRequest, name: str) -> None:
    """Set the name with which the audit log lists a request that signs in; empty: the sender has given none."""
    if settings.DEVUI_USERS:
        _user_access(request).sign_in_name = name or "(no name)"


def _user_access(request: HttpRequest) -> SenderAccess:
    access = request_access(request)
    return access if isinstance(access, SenderAccess) else SenderAccess()


async def _record_action(request: HttpRequest, status: int) -> None:
    """Write the audit entry of a request."""
    access = _user_access(request)
    rule, person, match = access.rule, access.person, match_route(request)
    name = access.person_name or access.sign_in_name
    if match is None or not rule.action or not name:
        return
    if rule.action == EXPORT.action and request.method in BODILESS_METHODS:
        return
    audited = AuditedRequest(
        rule,
        name,
        request.META.get("REMOTE_ADDR", ""),
        status,
        token=person.token if person else "",
        route=match.route,
        kwargs=match.kwargs,
        objects=access.objects,
        app=access.app,
    )
    try:
        await units_of_work.write(audit.record_request, audited)
    except Exception:  # the response is made, whatever the store or an odd id in the address does
        log.exception("The audit log lacks an entry: %s", audited)


async def _identify_sender(request: HttpRequest) -> SenderAccess:
    """Find the person who sends a request, record the use of the token, and set the access of the request."""
    access = SenderAccess.of(await _find_sender(request))
    set_access(request, access)
    if access.person is not None and access.person.unrecorded_token_pk is not None:
        await units_of_work.write(personal_tokens.record_use, access.person.unrecorded_token_pk)
    return access


async def _find_sender(request: HttpRequest) -> Person | None:
    authorization = request.headers.get("Authorization", "")
    proxy_user = _read_proxy_user(cast(ASGIRequest, request).scope) if settings.DEVUI_USER_HEADER else ""
    return await units_of_work.read(persons.find_person, request.COOKIES, authorization, proxy_user)


async def _find_socket_sender(scope: AsgiScope) -> Person | None:
    credentials = unauthenticated.handshake_credentials(scope)
    return await units_of_work.read(persons.find_person, *credentials, _read_proxy_user(scope))


def _read_proxy_user(scope: Mapping[str, Any]) -> str:
    return scopes.clean_text(trusted_proxy_header(scope, settings.DEVUI_USER_HEADER))


def _check_role(
    request: HttpRequest, person: Person, rule: AccessRule | None, app: str = ""
) -> HttpResponseBase | None:
    """Return the refusal of a sender without the role that a rule needs in an app; None: the role suffices."""
    if rule is not None and person.role_in(app) >= rule.role:
        _user_access(request).required_roles.append((rule.role, app))
        return None
    cast(DevUIRequest, request).htmx = HtmxDetails(request)  # its middleware has not run yet
    return error_responses.problem_response(request, _role_problem(person, rule, app))


def _role_problem(person: Person, rule: AccessRule | None, app: str) -> ErrorAnswer:
    if rule is None:
        return ErrorAnswer(
            403, "No role may send this request.", "role_required", "Check address and method."
        )
    needed, role = rule.role.label, person.user_role_in(app)
    if role >= rule.role:
        return ErrorAnswer(
            403,
            f"This needs the role {needed}; the token {person.token!r} is limited to {person.max_role.label}.",
            "role_required",
            f"Create a token with the role {needed} at /account/.",
        )
    command = f"python manage.py changeuser {person.name} --role {needed}"
    where = effect = ""
    if app:
        where, command = f" in the app {app}", f"{command} --app {shlex.quote(app)}"
    elif person.has_app_roles:
        where, effect = " in every app", ", which replaces the roles in single apps"
    return ErrorAnswer(
        403,
        f"This needs the role {needed}{where}; {person.name} has the role {role.label}{where}.",
        "role_required",
        f"An admin can change it: `{command}`{effect}.",
    )


async def _serve_recorded(app: AsgiApp, rule: AccessRule, scope: AsgiScope, receive: Any, send: Any) -> None:
    """Serve a socket, and write its audit entry when it is opened, refused or given up."""
    is_recorded = False

    async def record_once(status: int) -> None:
        nonlocal is_recorded
        if not is_recorded:
            is_recorded = True
            await _record_socket(scope, rule, status)

    async def send_recorded(message: dict[str, Any]) -> None:
        await send(message)
        await record_once(400 if message["type"] == "websocket.close" else 101)

    try:
        await app(scope, receive, send_recorded)
    finally:
        await asyncio.shield(record_once(CLIENT_LEFT))


async def _record_socket(scope: AsgiScope, rule: AccessRule, status: int) -> None:
    """Write the audit entry of a socket that runs an agent."""
    person: Person | None = scope.get(PERSON)
    if person is None or not person.name or not rule.action:
        return
    query_string = scope.get("query_string", b"")
    query = dict(parse_qsl(query_string.decode("latin-1")))
    kwargs = {name: query.get(name, "") for name in ("user_id", "session_id")}
    kwargs["app_name"] = ", ".join(targets.apps_in_query(query_string))
    client = (scope.get("client") or ("",))[0]
    audited = AuditedRequest(rule, person.name, client, status, token=person.token, kwargs=kwargs)
    with suppress(DevUIError):
        await units_of_work.write(audit.record_request, audited)


def _may_open(person: Person, scope: AsgiScope, rule: AccessRule) -> bool:
    """Tell whether a person has the role for a socket in every app that its address names."""
    apps = targets.apps_in_query(scope.get("query_string", b""))
    return all(person.role_in(app) >= rule.role for app in apps)
