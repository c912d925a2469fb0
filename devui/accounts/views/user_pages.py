"""The pages of users: the list, in which admins create them, and the page of one, on which admins change it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse

from devui.accounts import guard, user_columns, users
from devui.accounts.forms import NewUserForm, RoleForm
from sessions_app.forms.query import PageQuery
from sessions_app.http import note_object, render_partial
from sessions_app.roles import Role
from sessions_app.sessions import overview
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.errors import BadInput, DevUIError

LIST, PAGE = "devui/accounts/users.html", "devui/accounts/user.html"


async def list_users(request: HttpRequest) -> HttpResponse:
    """List the users; on POST create one, and show its generated password this once."""
    if request.method != "POST":
        return await units_of_work.read(_list_page, request)
    form, password = NewUserForm(request.POST, known_apps=await units_of_work.read(overview.app_names)), ""
    if form.is_valid():
        values = form.cleaned_data
        note_object(request, values["name"])
        try:
            password = await units_of_work.write(
                users.create_user, values["name"], values["role"], "", values["apps"]
            )
        except DevUIError as error:
            form.add_error("name", f"{error.message} {error.hint}")
    if not password:
        return await units_of_work.read(_list_page, request, form, status=422)
    return await units_of_work.read(_user_page, request, values["name"], password=password, is_new=True)


async def show_user(request: HttpRequest, name: str) -> HttpResponse:
    """Show a user; on POST change the role, set a generated password, disable, enable or unlink the user.

    Raises:
        NotFound: there is no such user.
        BadInput: the form names no known action, or nobody else is an admin.
    """
    if request.method != "POST":
        return await units_of_work.read(_user_page, request, name)
    user = await units_of_work.read(users.find_user, name)
    action = request.POST.get("action", "")
    form = RoleForm(request.POST, known_apps=await units_of_work.read(_role_apps, user))
    if action == "role":
        if not await _set_role(user, form):
            return await units_of_work.read(_user_page, request, name, form, status=422)
    elif action == "password":
        password = await units_of_work.write(users.set_password, user)
        return await units_of_work.read(_user_page, request, name, password=password)
    elif action in {"disable", "enable"}:
        await units_of_work.write(users.set_active, user, is_active=action == "enable")
    elif action == "unlink":
        await units_of_work.write(users.unlink_oidc_account, user)
    else:
        raise BadInput(
            f"The action {action!r} is unknown.", hint="Use role, password, disable, enable or unlink."
        )
    return HttpResponseRedirect(reverse("user", kwargs={"name": name}), status=303)


async def _set_role(user: User, form: RoleForm) -> bool:
    """Set the role that a form names. Return False, with the reason in the form, if it is refused."""
    if form.is_valid():
        try:
            await units_of_work.write(
                users.set_role, user, form.cleaned_data["role"], form.cleaned_data["apps"]
            )
        except BadInput as error:
            form.add_error("role", f"{error.message} {error.hint}")
    return not form.errors


def _role_apps(user: User) -> list[str]:
    """Return the names of all apps, and of those in which a user has a role."""
    names = user.memberships.exclude(app="").values_list("app", flat=True)
    return sorted({*overview.app_names(), *names})


def _list_page(request: HttpRequest, form: NewUserForm | None = None, status: int = 200) -> HttpResponse:
    table = user_columns.TABLE.arrange(request)
    before = PageQuery(request.GET).read()["before"]
    page = pagination.paginate(_users_with_roles(), table.order, before, is_counted=True)
    form = form or NewUserForm(initial={"role": Role.READER.value}, known_apps=overview.app_names())
    context = {**table.page_context(page, page.rows), "form": form}
    return render_partial(request, LIST, context, partial="users", status=status)


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the users as CSV, in the order and with the columns of the list."""
    table = user_columns.TABLE.arrange(request)
    return table.csv_response(
        user for batch in pagination.read_batches(_users_with_roles(), table.order) for user in batch
    )


def _users_with_roles() -> QuerySet[User]:
    return users.select_users().prefetch_related("memberships", "oidc_accounts")


def _user_page(
    request: HttpRequest, name: str, form: RoleForm | None = None, *, status: int = 200, **more: Any
) -> HttpResponse:
    user = users.find_user(name)
    roles = list(user.memberships.order_by("app"))
    person = guard.request_person(request)
    context = {
        "user": user,
        "roles": roles,
        "is_linked": user.oidc_accounts.exists(),
        "is_self": person is not None and person.user_pk == user.pk,
        "form": form
        or RoleForm(
            initial={"role": roles[0].role if roles else Role.READER.value}, known_apps=_role_apps(user)
        ),
        **more,
    }
    return render(request, PAGE, context, status=status)
