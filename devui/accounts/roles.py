"""Rules of routes about users; see `sessions_app.roles`."""

from sessions_app.roles import AccessRule, Role

ADMINISTER = AccessRule(Role.ADMIN)
CHANGE_PASSWORD = AccessRule(Role.READER, "password", "user")
CREATE_TOKEN = AccessRule(Role.READER, "create", "token")
REVOKE_TOKEN = AccessRule(Role.READER, "revoke", "token")
SET_QUOTA = AccessRule(Role.ADMIN, "edit", "quota")
REMOVE_QUOTA = AccessRule(Role.ADMIN, "delete", "quota")
CREATE_USER = AccessRule(Role.ADMIN, "create", "user")
CHANGE_USER = AccessRule(
    Role.ADMIN,
    "edit",
    "user",
    form_field="action",
    variants={
        name: AccessRule(Role.ADMIN, name, "user") for name in ("password", "disable", "enable", "unlink")
    },
)
EXPORT_USERS = AccessRule(Role.ADMIN, "export", "user")
EXPORT_AUDIT_LOG = AccessRule(Role.ADMIN, "export", "audit log")
