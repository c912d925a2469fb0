"""Rewrite the help texts in plain words."""

from django.db import migrations

from sessions_app.store.help_texts import AlterHelpTexts


class Migration(migrations.Migration):
    dependencies = [("evals_app", "0008_runs_of_a_shard")]

    operations = [
        AlterHelpTexts(
            {
                "evalattempt": {
                    "note": "Comment of a person.",
                    "stopped_because": "Reason of the cancellation.",
                    "tries": "Number of tries, including the first.",
                },
                "evalrun": {
                    "baseline": "Later runs are compared with it.",
                    "note": "Comment of a person.",
                    "policy": "JSON: {models, tools, source} of the replay.",
                    "queued_at": "When it was last sent to a runtime.",
                    "repeats": "The run that this one repeats exactly.",
                    "resumed": "How often it was resumed.",
                    "warnings": "JSON: probable mistakes, in words.",
                },
                "evalset": {
                    "cases": "JSON: [{id, turns, scenario, says}] for lists.",
                    "gone": "The file was deleted.",
                    "path": "Relative to the agents folder, or absolute if outside.",
                    "stamp": "Size and change time; the file is read again if it differs.",
                    "warnings": "JSON: probable mistakes, in words.",
                },
                "evalsetversion": {"note": "Comment of the person who changed it."},
            }
        )
    ]
