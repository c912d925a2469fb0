"""URLs of the sign-in page and of the account of a user."""

from django.urls import path

from devui.accounts.views import account, sign_in

urlpatterns = [
    path("login/", sign_in.sign_in, name="devui-login"),
    path("logout/", sign_in.sign_out, name="devui-logout"),
    path("account/", account.account, name="account"),
    path("account/password/", account.change_password, name="account-password"),
]
