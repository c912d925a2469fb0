"""Events, links and source of spans, and indexes by which received spans are found."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('sessions_app', '0008_list_of_runs')]

    operations = [
        migrations.AddField('span', 'events', models.TextField(default='[]', db_default='[]', help_text='JSON: name, at_ns and attributes of each event.')),
        migrations.AddField('span', 'links', models.TextField(default='[]', db_default='[]', help_text='JSON: trace_id, span_id and attributes of each link.')),
        migrations.AddField('span', 'source', models.TextField(default='{}', db_default='{}', help_text='JSON: resource and scope of the program that sent it, if any.')),
        migrations.AddIndex('span', models.Index(fields=['trace_id', 'span_id'], name='span_identity')),
        migrations.AddIndex('trace', models.Index(fields=['trace_id'], name='trace_by_trace_id', condition=~models.Q(trace_id=''))),
    ]
