"""Another system user than the server's, as which agents run (`DEVUI_AGENT_USER`)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from django.apps import apps
from django.conf import settings
from django.db import connection

from sessions_app.store.artifacts import content_files
from sessions_app.store.database.store_kind import is_file_store
from sessions_app.store.errors import BadInput

AGENT_APPS = ("sessions_app", "evals_app")
"""Labels of the Django apps whose tables agents read and write."""

GRANT_LOCK = 5_190_117
"""Key of an advisory lock: simultaneous grants of two servers on the same table would fail."""

MISSING_RIGHTS = """
    SELECT relname FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)
    AND NOT has_table_privilege(%s, oid, 'SELECT, INSERT, UPDATE, DELETE')
"""
"""Query of those of the named tables on which a role lacks rights."""


@dataclass(frozen=True)
class AgentUser:
    """A system user with a PostgreSQL role of its own, whose processes can read neither the server's files nor memory.

    Attributes:
        uid: its id.
        group: id of its primary group.
        groups: ids of all its groups.
        variables: the variables of its environment that differ from the server's.
        role: its PostgreSQL role.
    """

    uid: int
    group: int
    groups: tuple[int, ...]
    variables: Mapping[str, str]
    role: str

    @classmethod
    def from_settings(cls) -> Self | None:
        """Return the user of the settings; None: agents run as the server's user.

        Raises:
            BadInput: there is no such user, the server may not start processes as another user, or the user could not
                open the store.
        """
        name = getattr(settings, "DEVUI_AGENT_USER", "")
        url = getattr(settings, "DEVUI_AGENT_DATABASE_URL", "")
        if not name and not url:
            return None
        if not (name and url) or is_file_store():
            raise BadInput(
                "Agents can run as another user only with DEVUI_AGENT_USER, DEVUI_AGENT_DATABASE_URL and PostgreSQL.",
                hint="Set both and DATABASE_URL=postgresql://…, or unset both.",
            )
        if os.geteuid() != 0:
            raise BadInput(
                f"DEVUI_AGENT_USER={name!r} needs a server that runs as root.",
                hint="Only root can start processes as another user. Start the server as root, or unset it.",
            )
        try:
            entry = pwd.getpwnam(name)
        except KeyError as error:
            raise BadInput(
                f"DEVUI_AGENT_USER={name!r} is not a user of this system.",
                hint=f"Create it: useradd --system {name}.",
            ) from error
        variables = {"HOME": entry.pw_dir, "USER": name, "LOGNAME": name}
        groups = tuple(os.getgrouplist(name, entry.pw_gid))
        return cls(entry.pw_uid, entry.pw_gid, groups, variables, unquote(urlsplit(url).username or ""))

    def prepare_store(self) -> None:
        """Let the user open the store: grant the tables of sessions and evals, and give it the folder of artifacts.

        Raises:
            BadInput: PostgreSQL has no such role.
        """
        self._grant_tables()
        folder = content_files.folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chown(folder, self.uid, self.group)
        Path(settings.DATA_DIR).chmod(0o711)  # to pass through it, not to list it

    def _grant_tables(self) -> None:
        tables = [
            model._meta.db_table
            for label in AGENT_APPS
            for model in apps.get_app_config(label).get_models(include_auto_created=True)
        ]
        role = connection.ops.quote_name(self.role)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [GRANT_LOCK])
            cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [self.role])
            if cursor.fetchone() is None:
                raise BadInput(
                    f"PostgreSQL has no role {self.role!r}, which DEVUI_AGENT_DATABASE_URL names.",
                    hint=f"Create it in psql: CREATE ROLE {role} LOGIN PASSWORD '…'",
                )
            cursor.execute(MISSING_RIGHTS, [tables, self.role])
            for (table,) in cursor.fetchall():
                name = connection.ops.quote_name(table)
                cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {role}")
            cursor.execute(f"GRANT SELECT ON django_migrations TO {role}")
