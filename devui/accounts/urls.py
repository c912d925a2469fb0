"""URLs of sign-in, account, users, quotas and audit log."""

from django.urls import path

from devui.accounts.views import account, audit_log, sign_in, user_pages
from sessions_app.http import LazyRoute

urlpatterns = [
    path("login/", sign_in.sign_in, name="devui-login"),
    LazyRoute("login/sso/", "devui.accounts.views.single_sign_on.begin_sign_in", name="sso"),
    LazyRoute(
        "login/sso/callback/", "devui.accounts.views.single_sign_on.finish_sign_in", name="sso-callback"
    ),
    path("logout/", sign_in.sign_out, name="devui-logout"),
    path("account/", account.account, name="account"),
    path("account/password/", account.change_password, name="account-password"),
    path("account/tokens/", account.create_token, name="tokens"),
    path("account/tokens/<int:pk>/revoke/", account.revoke_token, name="token-revoke"),
    path("users/", user_pages.list_users, name="users"),
    path("users.csv", user_pages.csv_file, name="users-csv"),
    path("users/<str:name>/", user_pages.show_user, name="user"),
    LazyRoute("quotas/", "devui.accounts.views.quota_list.quota_list", name="quotas"),
    LazyRoute("quotas/new/", "devui.accounts.views.quota_list.new", name="quota-new"),
    LazyRoute("quotas/<int:pk>/", "devui.accounts.views.quota_list.change", name="quota"),
    LazyRoute("quotas/<int:pk>/remove/", "devui.accounts.views.quota_list.remove", name="quota-remove"),
    path("audit/", audit_log.audit_log, name="audit"),
    path("audit/export/", audit_log.export, name="audit-export"),
]
