"""URLs of sign-in, account, users, quotas and audit log."""

from devui.accounts.roles import (
    ADMINISTER,
    CHANGE_PASSWORD,
    CHANGE_USER,
    CREATE_TOKEN,
    CREATE_USER,
    EXPORT_AUDIT_LOG,
    EXPORT_USERS,
    REMOVE_QUOTA,
    REVOKE_TOKEN,
    SET_QUOTA,
)
from sessions_app.roles import PUBLIC, READ, SIGN_IN, SIGN_OUT, AccessRule
from sessions_app.routes import Route


def page(route: str, view: str, name: str, **rules: AccessRule) -> Route:
    """Route to a view of this app, `MODULE.FUNCTION`, imported on demand."""
    return Route(route, f"devui.accounts.views.{view}", name, **rules)


urlpatterns = [
    page("login/", "sign_in.sign_in", "devui-login", get=PUBLIC, post=SIGN_IN),
    page("login/sso/", "single_sign_on.begin_sign_in", "sso", get=PUBLIC),
    page("login/sso/callback/", "single_sign_on.finish_sign_in", "sso-callback", get=SIGN_IN),
    page("logout/", "sign_in.sign_out", "devui-logout", post=SIGN_OUT),
    page("account/", "account.account", "account", get=READ),
    page("account/password/", "account.change_password", "account-password", post=CHANGE_PASSWORD),
    page("account/tokens/", "account.create_token", "tokens", post=CREATE_TOKEN),
    page("account/tokens/<int:pk>/revoke/", "account.revoke_token", "token-revoke", post=REVOKE_TOKEN),
    page("users/", "user_pages.list_users", "users", get=ADMINISTER, post=CREATE_USER),
    page("users.csv", "user_pages.csv_file", "users-csv", get=EXPORT_USERS),
    page("users/<str:name>/", "user_pages.show_user", "user", get=ADMINISTER, post=CHANGE_USER),
    page("quotas/", "quota_list.quota_list", "quotas", get=ADMINISTER),
    page("quotas/new/", "quota_list.new", "quota-new", get=ADMINISTER, post=SET_QUOTA),
    page("quotas/<int:pk>/", "quota_list.change", "quota", get=ADMINISTER, post=SET_QUOTA),
    page("quotas/<int:pk>/remove/", "quota_list.remove", "quota-remove", post=REMOVE_QUOTA),
    page("audit/", "audit_log.audit_log", "audit", get=ADMINISTER),
    page("audit/export/", "audit_log.export", "audit-export", get=EXPORT_AUDIT_LOG),
]
