"""Users: creating and changing them. A change applies to their next request, in every web process."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Sequence

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction

from devui.accounts.models import Login, Membership, OidcAccount
from devui.accounts.password_strength import require_strong_password
from sessions_app.roles import Role
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound
from sessions_app.store.ids import check_id
from sessions_app.store.short_texts import join_names

OWNER = "the owner"
"""Name of the owner (`devui.accounts.owner`). It has a space, so that no other user can have it."""

GENERATED_BYTES = 15

NAMES_LISTED = 20
"""Users that an error names."""

EAST_ASIAN_SCRIPTS = {"CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "BOPOMOFO", "HANGUL"}
"""First words of the names that Unicode gives to their characters."""


def create_user(
    name: str, role: Role, password: str = "", apps: Sequence[str] = (), *, has_password: bool = True
) -> str:
    """Create a user. Return the password, which is generated if none is given.

    Args:
        apps: the apps in which the user has the role, and is a reader of all others; none: every app.
        has_password: False if the user can sign in only by single sign-on; then the result is empty.

    Raises:
        BadInput: the name, the password or the name of an app is not acceptable.
        AlreadyExists: the name is taken.
    """
    user = User(username=name)
    plain_name = User.normalize_username(name)
    if plain_name != name:  # letters of full width, for example, look like others
        raise BadInput(f"{name!r} is not a name for a user.", hint=f"Write it {plain_name!r}.")
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise BadInput(f"{name!r} is not a name for a user.", hint=" ".join(error.messages)) from error
    if _has_mixed_scripts(name):
        raise BadInput(
            f"{name!r} is not a name for a user: it mixes letters of several scripts, which can look alike.",
            hint="Use the letters of one script.",
        )
    if name[0] in ".-":  # `..` has no page in a browser, and `--help` is an option of commands
        raise BadInput(f"{name!r} is not a name for a user.", hint="Let it begin with another character.")
    if User.objects.filter(username__iexact=name).exists():
        raise _name_taken_error(name)
    _check_apps(apps)
    if has_password:
        password = password or generate_password()
        require_strong_password(password, user)
        user.set_password(password)
    else:
        user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save()
            Membership.objects.create(user=user, role=Role.READER if apps else role)
            Membership.objects.bulk_create(
                Membership(user=user, app=app, role=role) for app in dict.fromkeys(apps)
            )
    except IntegrityError as error:  # a simultaneous request has just created it
        raise _name_taken_error(name) from error
    return password


def select_users() -> models.QuerySet[User]:
    """Return all users, without the owner."""
    return User.objects.exclude(username=OWNER)


def find_user(name: str) -> User:
    """Return a user by name.

    Raises:
        NotFound: there is no such user.
    """
    user = select_users().filter(username=name).first()
    if user is None:
        names = join_names(list_names(), NAMES_LISTED)
        raise NotFound(f"There is no user {name!r}.", hint=f"Users: {names or 'none'}.")
    return user


def list_names() -> list[str]:
    """Return the names of all users, sorted."""
    return list(select_users().order_by("username").values_list("username", flat=True))


def set_role(user: User, role: Role, apps: Sequence[str] = ()) -> None:
    """Set a user's role in the given apps; without apps, set it everywhere and remove single-app roles.

    Raises:
        BadInput: nobody else is an admin, or the name of an app is not acceptable.
    """
    _check_apps(apps)
    with transaction.atomic():
        for app in apps:
            Membership.objects.update_or_create(user=user, app=app, defaults={"role": role})
        if apps:
            return
        if role != Role.ADMIN:
            _require_other_admin(user)
        Membership.objects.filter(user=user).exclude(app="").delete()
        Membership.objects.update_or_create(user=user, app="", defaults={"role": role})


def set_active(user: User, *, is_active: bool) -> None:
    """Enable or disable a user. Disabling ends the user's logins.

    Raises:
        BadInput: nobody else is an admin.
    """
    with transaction.atomic():
        if not is_active:
            _require_other_admin(user)
        user.is_active = is_active
        user.save(update_fields=["is_active"])
        if not is_active:
            Login.objects.filter(user=user).delete()


def set_password(user: User, password: str = "") -> str:
    """Set a user's password, which ends all logins of the user. Return it; an empty one is generated.

    Raises:
        BadInput: the password is too weak.
    """
    password = password or generate_password()
    require_strong_password(password, user)
    user.set_password(password)
    save_password(user)
    return password


def save_password(user: User) -> None:
    """Store the hash of a user's new password, which ends all logins of the user."""
    user.save(update_fields=["password"])
    Login.objects.filter(user=user).delete()


def unlink_oidc_account(user: User) -> None:
    """End the link to the user's account at the OpenID Connect provider, and all logins of the user.

    The next account with the name of the user that signs in is linked.
    """
    OidcAccount.objects.filter(user=user).delete()
    Login.objects.filter(user=user).delete()


def has_admin() -> bool:
    """Tell whether anybody can sign in as an admin."""
    return _active_admins().exists()


def generate_password() -> str:
    """Return a random password."""
    return secrets.token_urlsafe(GENERATED_BYTES)


def _has_mixed_scripts(name: str) -> bool:
    """Tell whether a name has letters or digits of several scripts, as look-alikes of other names have.

    Those of East Asia are written together, and with others.
    """
    scripts = {unicodedata.name(char, "?").replace("-", " ").split()[0] for char in name if char.isalnum()}
    return len(scripts - EAST_ASIAN_SCRIPTS - {"DIGIT"}) > 1


def _check_apps(apps: Sequence[str]) -> None:
    for app in apps:
        if not app:  # which would be the role in every app
            raise BadInput("The name of an app is empty.", hint="Leave it out for the role in every app.")
        check_id("app", app)


def _name_taken_error(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"There is a user {name!r} already.", hint=f"To change it: `python manage.py changeuser {name}`."
    )


def _active_admins() -> models.QuerySet[Membership]:
    return Membership.objects.filter(app="", role=Role.ADMIN, user__is_active=True)


def _require_other_admin(user: User) -> None:
    """Refuse a change of the only admin.

    The lock on all admins and their users makes simultaneous changes wait: two admins could demote each other.
    """
    admins = set(_active_admins().select_for_update().order_by("pk").values_list("user", flat=True))
    if admins == {user.pk}:
        raise BadInput(
            f"{user.username!r} is the only admin.",
            hint="First make another: `python manage.py createuser NAME --role admin`.",
        )
