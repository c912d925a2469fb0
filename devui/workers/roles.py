"""Rules of routes about workers; see `sessions_app.roles`."""

from sessions_app.roles import AccessRule, Role

DRAIN = AccessRule(Role.ADMIN, "drain", "worker")
REMOVE = AccessRule(Role.ADMIN, "remove", "worker")
