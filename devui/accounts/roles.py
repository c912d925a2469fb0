"""Roles, and the table of the role that each request needs.

Requests that read need the reader role unless `RULES` names another. A request that writes needs the role that `RULES`
names for its method and route; if it names none, nobody may send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import models

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Role(models.IntegerChoices):
    """The permissions of a user. Each role includes those before it."""

    READER = 1, "reader"
    RUNNER = 2, "runner"
    ADMIN = 3, "admin"

    @classmethod
    def of(cls, name: str) -> Role:
        """Return the role of this name.

        Raises:
            KeyError: there is no such role.
        """
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The role that a request needs, and the action that the audit log shows for it.

    Attributes:
        role: the least role that may send it.
        action: what it does; empty if it only reads.
        kind: the kind of object that it does this to.
        form_field: a field of its form. Its value, up to a colon, selects one of `variants`; `*` is any value.
    """

    role: Role
    action: str = ""
    kind: str = ""
    form_field: str = ""
    variants: Mapping[str, AccessRule] = field(default_factory=dict)

    def select_variant(self, form: Mapping[str, str]) -> AccessRule:
        """Return the rule of a request with this form."""
        value = form.get(self.form_field, "") if self.form_field else ""
        variant = self.variants.get(value.partition(":")[0]) or (self.variants.get("*") if value else None)
        return variant or self


READ = AccessRule(Role.READER)
RUN = AccessRule(Role.RUNNER, "run", "session")
EDIT = AccessRule(Role.RUNNER, "edit", "session")
CREATE = AccessRule(Role.RUNNER, "create", "session")
CANCEL = AccessRule(Role.RUNNER, "cancel", "run")
STATE = AccessRule(Role.RUNNER, "edit", "state")
LABEL = AccessRule(Role.RUNNER, "label", "session")
VIEW = AccessRule(Role.RUNNER, "edit", "saved view")
UPLOAD = AccessRule(Role.RUNNER, "create", "artifact")
REMEMBER = AccessRule(Role.RUNNER, "create", "memory")
RUN_EVALS = AccessRule(Role.RUNNER, "run", "evals")
CANCEL_EVALS = AccessRule(Role.RUNNER, "cancel", "eval run")
NOTE = AccessRule(Role.RUNNER, "note", "eval run")
EVALSET = AccessRule(Role.RUNNER, "edit", "evalset")
REVIEWED_EVALSET = AccessRule(Role.RUNNER, form_field="seen", variants={"*": EVALSET})
TESTS = AccessRule(Role.RUNNER, "edit", "recorded test")
DELETE = AccessRule(Role.ADMIN, "delete", "session")
RESTORE = AccessRule(Role.ADMIN, "restore", "session")
IMPORT = AccessRule(Role.ADMIN, "import", "session")
SETTINGS = AccessRule(Role.ADMIN, "settings", "app")
EXPORT = AccessRule(Role.READER, "export", "session")
EXPORT_EVALS = AccessRule(Role.READER, "export", "eval run")
ACTION = AccessRule(
    Role.READER,
    form_field="action",
    variants={
        **dict.fromkeys(("tag", "untag", "pin", "unpin"), LABEL),
        "export": EXPORT,
        "*": DELETE,
    },
)

CHANGE_USER = AccessRule(
    Role.ADMIN,
    "edit",
    "user",
    form_field="action",
    variants={
        name: AccessRule(Role.ADMIN, name, "user") for name in ("password", "disable", "enable", "unlink")
    },
)
QUOTA = AccessRule(Role.ADMIN, "edit", "quota")
DRAIN, REMOVE = AccessRule(Role.ADMIN, "drain", "worker"), AccessRule(Role.ADMIN, "remove", "worker")

_SESSION = "apps/<seg:app_name>/users/<seg:user_id>/sessions/<seg:session_id>"
_DEV = "dev/apps/<seg:app_name>"
_EVALSET = "evals/<seg:app_name>/<seg:evalset_id>/"
_EVAL_RUN = "evals/runs/<str:run_id>/"
_EVAL_RUN_V1 = "api/v1/evals/runs/<run_id>"

RULES: dict[str, AccessRule] = {
    "POST logout/": AccessRule(Role.READER, "sign-out", "user"),
    "POST account/password/": AccessRule(Role.READER, "password", "user"),
    "POST account/tokens/": AccessRule(Role.READER, "create", "token"),
    "POST api/v1/tokens": AccessRule(Role.READER, "create", "token"),
    "DELETE api/v1/tokens/<int:token>": AccessRule(Role.READER, "revoke", "token"),
    "POST account/tokens/<int:pk>/revoke/": AccessRule(Role.READER, "revoke", "token"),
    "GET quotas/": AccessRule(Role.ADMIN),
    "GET quotas/new/": AccessRule(Role.ADMIN),
    "POST quotas/new/": QUOTA,
    "GET quotas/<int:pk>/": AccessRule(Role.ADMIN),
    "POST quotas/<int:pk>/": QUOTA,
    "POST quotas/<int:pk>/remove/": AccessRule(Role.ADMIN, "delete", "quota"),
    "GET api/v1/quotas": AccessRule(Role.ADMIN),
    "PUT api/v1/quotas": QUOTA,
    "DELETE api/v1/quotas": AccessRule(Role.ADMIN, "delete", "quota"),
    "GET users/": AccessRule(Role.ADMIN),
    "POST users/": AccessRule(Role.ADMIN, "create", "user"),
    "GET users/<str:name>/": AccessRule(Role.ADMIN),
    "POST users/<str:name>/": CHANGE_USER,
    "GET users.csv": AccessRule(Role.ADMIN, "export", "user"),
    "GET audit/": AccessRule(Role.ADMIN),
    "GET audit/export/": AccessRule(Role.ADMIN, "export", "audit log"),
    # sessions
    "GET sessions/csv/": EXPORT,
    "POST sessions/new/": CREATE,
    "POST sessions/actions/": ACTION,
    "POST sessions/deleted/<str:batch>/undo/": RESTORE,
    "POST sessions/views/": VIEW,
    "POST sessions/views/<int:pk>/": VIEW,
    "POST sessions/id/<int:pk>/rewind/": EDIT,
    "POST sessions/id/<int:pk>/fork/": CREATE,
    "POST sessions/id/<int:pk>/rename/": LABEL,
    "GET sessions/id/<int:pk>/export/": EXPORT,
    "POST sessions/id/<int:pk>/delete/": DELETE,
    "POST sessions/id/<int:pk>/state/edit/": STATE,
    "POST sessions/id/<int:pk>/state/remove/": STATE,
    "POST sessions/id/<int:pk>/events/<int:seq>/seen/": RUN,  # calls the agent's instruction providers
    "POST api/v1/sessions/active": CREATE,
    "PATCH api/v1/sessions/<int:session>": LABEL,
    "POST api/v1/sessions/<int:session>/rewind": EDIT,
    "POST api/v1/sessions/<int:session>/fork": CREATE,
    "PUT api/v1/sessions/<int:session>/state/key": STATE,
    "DELETE api/v1/sessions/<int:session>/state/key": STATE,
    "GET api/v1/sessions/export": EXPORT,
    "GET api/v1/sessions/<int:session>/html": EXPORT,
    "POST api/v1/sessions/delete": DELETE,
    "POST api/v1/deletions/<batch>/undo": RESTORE,
    f"POST {_SESSION.rpartition('/')[0]}": CREATE,
    f"POST {_SESSION}": CREATE,
    f"PATCH {_SESSION}": STATE,
    f"DELETE {_SESSION}": DELETE,
    "POST imports/start/": IMPORT,
    "POST imports/dismiss/": IMPORT,
    # runs and traces
    "GET runs/csv/": AccessRule(Role.READER, "export", "run"),
    "GET traces/csv/": AccessRule(Role.READER, "export", "trace"),
    "POST runs/start/<int:pk>/": RUN,
    "POST runs/call/<int:pk>/": READ,  # shows a call
    "GET runs/sign-in/<int:pk>/": AccessRule(Role.RUNNER),
    "GET runs/signed-in/": RUN,  # answers the call that waits for it
    "POST runs/edit/<int:pk>/<int:seq>/": RUN,
    "POST runs/<str:run_id>/resume/": RUN,
    "POST runs/<str:run_id>/again/": RUN,
    "POST runs/<str:run_id>/cancel/": CANCEL,
    "POST api/v1/runs": RUN,
    "POST api/v1/runs/<run_id>/cancel": CANCEL,
    "POST run": RUN,
    "POST run_sse": RUN,
    "POST agent-identity/finalize": RUN,
    # artifacts and memory
    "GET memory/csv/": AccessRule(Role.READER, "export", "memory"),
    "GET artifacts/csv/": AccessRule(Role.READER, "export", "artifact"),
    "POST artifacts/upload/": UPLOAD,
    "POST artifacts/delete/": AccessRule(Role.ADMIN, "delete", "artifact"),
    f"POST {_SESSION}/artifacts": UPLOAD,
    f"DELETE {_SESSION}/artifacts/<rest:name>": AccessRule(Role.ADMIN, "delete", "artifact"),
    "POST memory/add/": REMEMBER,
    "POST memory/<int:pk>/delete/": AccessRule(Role.ADMIN, "delete", "memory"),
    "PATCH apps/<seg:app_name>/users/<seg:user_id>/memory": REMEMBER,
    # workers
    "POST workers/<str:worker_id>/drain/": DRAIN,
    "POST workers/<str:worker_id>/remove/": REMOVE,
    "POST api/v1/workers/<worker_id>/drain": DRAIN,
    "DELETE api/v1/workers/<worker_id>": REMOVE,
    # apps
    "POST agents/<seg:app_name>/restart/": AccessRule(Role.RUNNER, "restart", "app"),
    "POST agents/<seg:app_name>/settings/": SETTINGS,
    "PUT api/v1/apps/<seg:app>/settings": SETTINGS,
    "POST config/telemetry": SETTINGS,
    f"POST {_DEV}/builder/cancel": SETTINGS,
    f"POST {_DEV}/builder/save": SETTINGS,
    f"POST {_DEV}/deploy/<seg:target>": SETTINGS,
    f"POST {_DEV}/tests/rebuild": TESTS,
    f"POST {_DEV}/tests/run": AccessRule(Role.RUNNER, "run", "recorded test"),
    f"PUT {_DEV}/tests/<seg:test_name>": TESTS,
    f"DELETE {_DEV}/tests/<seg:test_name>": AccessRule(Role.ADMIN, "delete", "recorded test"),
    # evals
    "POST evals/new/": EVALSET,
    "POST evals/upload/": EVALSET,
    "POST evals/record/": EVALSET,
    "POST evals/replay/<int:pk>/": RUN_EVALS,
    f"POST {_EVALSET}": RUN_EVALS,
    f"POST {_EVALSET}case/": REVIEWED_EVALSET,
    f"POST {_EVALSET}change/": REVIEWED_EVALSET,
    f"POST {_EVALSET}plan/": READ,  # computes what a run would show
    f"POST {_EVALSET}delete/": AccessRule(Role.ADMIN, "delete", "evalset"),
    "GET evals/evalsets.csv": AccessRule(Role.READER, "export", "evalset"),
    f"GET {_EVALSET}file/": AccessRule(Role.READER, "export", "evalset"),
    **{
        f"POST {_EVAL_RUN}{name}/": RUN_EVALS
        for name in ("again", "confirm", "parallelism", "resume", "retry")
    },
    f"POST {_EVAL_RUN}cancel/": CANCEL_EVALS,
    f"POST {_EVAL_RUN}attempts/<int:attempt>/cancel/": CANCEL_EVALS,
    f"POST {_EVAL_RUN}attempts/<int:attempt>/note/": NOTE,
    f"POST {_EVAL_RUN}note/": NOTE,
    f"POST {_EVAL_RUN}baseline/": NOTE,
    f"GET {_EVAL_RUN}export/<str:kind>/": EXPORT_EVALS,
    f"GET {_EVAL_RUN}case/<int:attempt>/export/": EXPORT_EVALS,
    f"GET {_EVAL_RUN}compare/export/": EXPORT_EVALS,
    "POST api/v1/evals/runs": RUN_EVALS,
    "POST api/v1/evals/replays": RUN_EVALS,
    **{f"POST {_EVAL_RUN_V1}/{name}": RUN_EVALS for name in ("again", "confirm", "resume", "retry")},
    f"PUT {_EVAL_RUN_V1}/parallelism": RUN_EVALS,
    f"POST {_EVAL_RUN_V1}/cancel": CANCEL_EVALS,
    f"POST {_EVAL_RUN_V1}/attempts/<int:attempt>/cancel": CANCEL_EVALS,
    f"PUT {_EVAL_RUN_V1}/note": NOTE,
    f"PUT {_EVAL_RUN_V1}/baseline": NOTE,
    "PUT api/v1/evals/attempts/<int:attempt>/note": NOTE,
    f"DELETE {_EVAL_RUN_V1}": AccessRule(Role.ADMIN, "delete", "eval run"),
    f"GET {_EVAL_RUN_V1}/compare/html": EXPORT_EVALS,
    "GET api/v1/evals/attempts/<int:attempt>/html": EXPORT_EVALS,
    f"POST {_DEV}/eval-sets": EVALSET,
    f"POST {_DEV}/eval_sets/<seg:evalset_id>": EVALSET,
    f"DELETE {_DEV}/eval-sets/<seg:evalset_id>": AccessRule(Role.ADMIN, "delete", "evalset"),
    f"POST {_DEV}/eval-sets/<seg:evalset_id>/add-session": EVALSET,
    f"POST {_DEV}/eval_sets/<seg:evalset_id>/add_session": EVALSET,
    f"POST {_DEV}/eval-sets/<seg:evalset_id>/run": RUN_EVALS,
    f"POST {_DEV}/eval_sets/<seg:evalset_id>/run_eval": RUN_EVALS,
    f"PUT {_DEV}/eval-sets/<seg:evalset_id>/eval-cases/<seg:case_id>": EVALSET,
    f"DELETE {_DEV}/eval-sets/<seg:evalset_id>/eval-cases/<seg:case_id>": EVALSET,
    f"PUT {_DEV}/eval_sets/<seg:evalset_id>/evals/<seg:case_id>": EVALSET,
    f"DELETE {_DEV}/eval_sets/<seg:evalset_id>/evals/<seg:case_id>": EVALSET,
}
"""Rules by method and route, of requests that write, that export, or that need more than a reader."""

APP_FIELDS = {
    "POST sessions/new/": "app",
    "GET runs/signed-in/": "state",
    "POST api/v1/runs": "session",
    "POST run": "appName",
    "POST run_sse": "appName",
    "POST artifacts/upload/": "app",
    "POST memory/add/": "app",
    "POST evals/new/": "app",
    "POST evals/upload/": "app",
    "POST api/v1/evals/runs": "app",
}
"""Fields of forms, JSON bodies and queries that name the app or a session of it, of requests whose path does not."""

TARGET_APP_FIELDS = {
    "POST sessions/id/<int:pk>/fork/": "app",
    "POST api/v1/sessions/<int:session>/fork": "app",
}
"""Fields of forms and JSON bodies that name a second app, in which the request creates an object."""

SIGN_IN = AccessRule(Role.READER, "sign-in", "user")
PUBLIC_RULES = {
    "GET login/": READ,
    "POST login/": SIGN_IN,
    "GET login/sso/": READ,
    "GET login/sso/callback/": SIGN_IN,
    "GET health": READ,
    "GET ready": READ,
}
"""Rules of requests that need no login."""

SOCKETS: dict[str, AccessRule] = {"ws": READ, "run_live": RUN}
"""Rules of sockets by the first segment of their path."""


def find_rule(method: str, route: str) -> AccessRule | None:
    """Return the rule of a request, without those of its form; None if nobody may send it."""
    key = _key(method, route)
    return RULES.get(key) or PUBLIC_RULES.get(key) or (READ if method in SAFE_METHODS else None)


def is_public(method: str, route: str) -> bool:
    """Tell whether a request needs no login."""
    return _key(method, route) in PUBLIC_RULES


def _key(method: str, route: str) -> str:
    return f"{'GET' if method in SAFE_METHODS else method} {route}"
