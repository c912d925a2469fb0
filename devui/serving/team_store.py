"""The environment and the database of a team on one machine."""

from __future__ import annotations

import os
import secrets
from urllib.parse import urlsplit, urlunsplit

from sessions_app.store.errors import StoreUnavailable
from sessions_app.store.redaction import without_password

DEFAULT_DATABASE = "postgresql://postgres@127.0.0.1:5432/devui_team"

MAINTENANCE_DATABASE = "postgres"
"""Database that every PostgreSQL server has, from which others are created."""

CONNECT_S = 5


def set_environment() -> None:
    """Set the variables that all processes of a team share. Called before settings are read.

    The database and the secret may be given. The secret only has to be the same for processes that run together.
    """
    os.environ.setdefault("DATABASE_URL", DEFAULT_DATABASE)
    os.environ.setdefault("DEVUI_SECRET_KEY", secrets.token_urlsafe(48))
    os.environ.update(DEVUI_ENGINE="procrastinate", DEVUI_USERS="1")


def ensure_database(url: str) -> bool:
    """Create the database of a URL if its server has none of this name. Return whether it did.

    Raises:
        StoreUnavailable: the server does not answer, or refuses the user or the new database.
    """
    import psycopg
    from psycopg import sql

    parts = urlsplit(url)
    name = parts.path.removeprefix("/")
    server_url = urlunsplit(parts._replace(path=f"/{MAINTENANCE_DATABASE}"))
    try:
        with psycopg.connect(server_url, autocommit=True, connect_timeout=CONNECT_S) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                return False
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise StoreUnavailable(
            f"The user {parts.username!r} may not create the database {name!r}.",
            hint=f"Create it as an administrator of PostgreSQL: createdb --owner {parts.username} {name}.",
        ) from error
    except psycopg.Error as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StoreUnavailable(
            f"PostgreSQL cannot be used at {without_password(url)}: {reason}.",
            hint="Start it, or set DATABASE_URL=postgresql://user:password@host:5432/name. With Docker: docker run -d"
            " -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres.",
        ) from error
    return True
