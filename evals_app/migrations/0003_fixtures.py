"""Tool calls of an attempt that fixtures answered."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0002_playground'),
    ]

    operations = [
        migrations.AddField(
            model_name='evalattempt',
            name='fixture_answers',
            field=models.TextField(db_default='[]', default='[]', help_text='JSON: tool calls that fixtures answered: [{turn, agent, call, tool, source, number}].'),
        ),
    ]
