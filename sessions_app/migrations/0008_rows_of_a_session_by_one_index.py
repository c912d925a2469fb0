"""Drop the indexes of foreign keys whose column another index of the table begins with.

Every append kept them up to date, and nothing was found by them. The fields say so in the state alone: Django would
copy whole tables on SQLite to change them, and dropping an index is a moment on either database.
"""

import django.db.models.deletion
from django.db import migrations, models

DROPPED = {
    "sessions_app_appstate_owner_id_24f197c9": "sessions_app_appstate (owner_id)",
    "sessions_app_event_session_id_c115b7c5": "sessions_app_event (session_id)",
    "sessions_app_run_session_id_2000c1cd": "sessions_app_run (session_id)",
    "sessions_app_sessionstate_owner_id_9c0b3472": "sessions_app_sessionstate (owner_id)",
    "sessions_app_sessiontag_session_id_41c56100": "sessions_app_sessiontag (session_id)",
    "sessions_app_statechange_session_id_f09b068a": "sessions_app_statechange (session_id)",
    "sessions_app_tempwrite_session_id_4285bb9c": "sessions_app_tempwrite (session_id)",
    "sessions_app_untrackedkey_session_id_87864430": "sessions_app_untrackedkey (session_id)",
    "sessions_app_userstate_owner_id_b032b61c": "sessions_app_userstate (owner_id)",
}


def owned(model: str, field: str, owner: str, name: str) -> migrations.AlterField:
    """Return the change of a foreign key whose rows go with what they belong to."""
    key = models.ForeignKey(
        db_index=False,
        on_delete=django.db.models.deletion.CASCADE,
        related_name=name,
        to=f"sessions_app.{owner}",
    )
    return migrations.AlterField(model_name=model, name=field, field=key)


class Migration(migrations.Migration):
    """Nine indexes less; no row changes."""

    dependencies = [("sessions_app", "0007_branches_are_traits")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(f"DROP INDEX IF EXISTS {name}", f"CREATE INDEX {name} ON {place}")
                for name, place in DROPPED.items()
            ],
            state_operations=[
                owned("appstate", "owner", "appscope", "state_rows"),
                owned("event", "session", "agentsession", "events"),
                owned("run", "session", "agentsession", "runs"),
                owned("sessionstate", "owner", "agentsession", "state_rows"),
                owned("sessiontag", "session", "agentsession", "tags"),
                migrations.AlterField(
                    model_name="statechange",
                    name="session",
                    field=models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="changes",
                        to="sessions_app.agentsession",
                    ),
                ),
                owned("tempwrite", "session", "agentsession", "temp_writes"),
                owned("untrackedkey", "session", "agentsession", "untracked_keys"),
                owned("userstate", "owner", "userscope", "state_rows"),
            ],
        )
    ]
