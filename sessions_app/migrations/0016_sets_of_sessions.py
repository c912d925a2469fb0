"""Find all sessions that have a key or a word in one range of an index, and so those few that have it not.

Of state: those that have a key now, and those that ever had it. Of words on PostgreSQL: a row for many events.
"""

from django.db import migrations, models

import sessions_app.store.full_text

ANY_VALUE = """
INSERT INTO sessions_app_statevalue (scope, key_id, mark, owner_id)
SELECT DISTINCT scope, key_id, '', owner_id FROM sessions_app_statevalue WHERE mark > ''
"""
NO_VALUE = "DELETE FROM sessions_app_statevalue WHERE mark = ''"

WORDS = """
INSERT INTO sessions_app_sessionwords (id, words)
SELECT id, array_to_tsvector(found.words) FROM sessions_app_eventwords AS event, LATERAL (
    SELECT array_agg(lexeme) AS words FROM unnest(event.words)
    WHERE 'A' = ANY(weights) AND left(lexeme, 1) <> U&'\\E000'
) AS found WHERE found.words IS NOT NULL
"""
"""The words that no event of the session and batch has before: they have a label. What starts so is an id's."""


def put_words(apps, schema_editor):
    """Take the words of sessions out of those of their events; SQLite has them there."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(WORDS, params=None)


class Migration(migrations.Migration):
    """Some 5 s for a million values in the index of values; on PostgreSQL a second more for 100,000 events."""

    dependencies = [("sessions_app", "0015_which_code_ran")]

    operations = [
        migrations.AddIndex(
            model_name="sessionstate",
            index=models.Index(fields=["key_id", "owner"], name="sessions_with_key"),
        ),
        migrations.RunSQL(ANY_VALUE, NO_VALUE),
        migrations.CreateModel(
            name="SessionWords",
            fields=[
                (
                    "id",
                    models.BigIntegerField(
                        help_text="Of session and seq of the first of the events.",
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "words",
                    sessions_app.store.full_text.WordsField(help_text="The words without their places.", null=True),
                ),
            ],
        ),
        migrations.RunPython(put_words, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="sessionwords",
            index=sessions_app.store.full_text.WordSetIndex(fields=["words"], name="session_words"),
        ),
    ]
