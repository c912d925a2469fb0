from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("evals_app", "0003_when_runs_are_given_out"),
    ]

    operations = [
        migrations.AddField(
            model_name="evalattempt",
            name="cause",
            field=models.TextField(
                default="", help_text="Why it did not pass, in words that attempts of one cause share."
            ),
        ),
    ]
