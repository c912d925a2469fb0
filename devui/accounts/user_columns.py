"""Columns of the list of users."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.presentation import visible_text
from sessions_app.store.database.pagination import Order
from sessions_app.tables.table import Column, Table
from sessions_app.templatetags import devui


def _name_cell(user: User) -> SafeString:
    url = reverse("user", kwargs={"name": user.username})
    return format_html('<a href="{}"><bdi>{}</bdi></a>', url, visible_text.name_html(user.username))


def _list_roles(user: User) -> str:
    roles = user.memberships.all()
    return ", ".join(f"{role.get_role_display()}{f' in {role.app}' if role.app else ''}" for role in roles)


def _list_sign_ins(user: User) -> str:
    has_password = user.has_usable_password()
    uses_single_sign_on = not has_password or user.oidc_accounts.all()
    return ", ".join(["password"] * has_password + ["single sign-on"] * bool(uses_single_sign_on))


def _status_cell(status: str) -> str:
    return status if status == "active" else format_html('<span class="badge">{}</span>', status)


TABLE: Table[User] = Table(
    name="users",
    title="Users",
    noun="user",
    default_sort="name",
    default_label="By name",
    row_id="user",
    row_key=lambda user: user.pk,
    csv_route="users-csv",
    has_filters=False,
    columns=(
        Column(
            "name",
            "Name",
            value=lambda user: user.username,
            cell=_name_cell,
            order=Order("username"),
            css="cell-main",
            is_row_head=True,
        ),
        Column("role", "Role", value=_list_roles),
        Column("sign-in", "Signs in with", value=_list_sign_ins),
        Column(
            "last-sign-in",
            "Last sign-in",
            value=lambda user: user.last_login and user.last_login.timestamp(),
            show=devui.moment,
        ),
        Column(
            "status",
            "Status",
            value=lambda user: "active" if user.is_active else "disabled",
            show=_status_cell,
        ),
    ),
)
