"""First outcomes count again: later tries of attempts that had an outcome move into runs of their own.

Earlier, an attempt that failed was retried in place: its new try replaced its outcome, and `earlier` kept a record of
the try before, without its scores. Now each later try after an outcome is an attempt of a run with the source `retry`,
which `repeats` the first run. No try is lost: their number over all runs stays the same.
"""

import json
import uuid
from itertools import zip_longest

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Count, Q

OUTCOMES = ('passed', 'failed', 'error')
"""Statuses of tries with an outcome, unless the error type is one of the following."""

NO_OUTCOME_TYPES = ('RuntimeGone', 'StoreLost', 'ModelUnavailable', 'JudgeEndedProcess', 'JudgeTooLong')

OPEN = ('pending', 'running')

UNFINISHED = Q(status__in=(*OPEN, 'cancelled')) | Q(status='error', error_type__in=('RuntimeGone', 'StoreLost'))
"""Attempts for which a run is not done."""

COUNTS = {
    'passed': 'passed',
    'failed': 'failed',
    'errors': 'error',
    'incomplete': 'incomplete',
    'cancelled': 'cancelled',
}
"""Column of a run → status of the attempts that it counts."""

RECORDED = ('status', 'error_type', 'error', 'started_at', 'finished_at', 'realm', 'total_tokens', 'cost')
"""Columns of an attempt that the record of a try has."""

IDENTITY = ('id', 'run', 'case_index', 'case_id', 'repetition')

NO_SCORES = 'Its scores were not kept when it was tried again.'

UPDATED = 'DevUI was updated while it waited or ran.'

RUN_DEFAULTS = (
    *('baseline', 'baseline_person', 'note', 'note_person', 'shard', 'runtime', 'cancel_requested_at', 'resumed'),
    *('last_step_at', 'limits_from', 'limits_seconds', 'spent_seconds', 'revision'),
)
"""Columns of a run that its retries do not share."""

REASONS = ('stopped_because', 'error_type', 'error', 'hint', 'traceback')
"""Columns of a run that say why it ended early."""


def move_later_tries(apps, schema_editor):
    """Restore the first outcomes of all runs."""
    attempts = apps.get_model('evals_app', 'EvalAttempt').objects
    run_ids = attempts.exclude(earlier='[]').order_by('run').values_list('run', flat=True).distinct()
    for run_id in list(run_ids):
        groups_by_attempt = {
            attempt: groups
            for attempt in attempts.filter(run=run_id).exclude(earlier='[]').order_by('case_index', 'repetition')
            if len(groups := split_after_outcomes(attempt)) > 1
        }
        if groups_by_attempt:
            restore_run(apps, attempts.model.run.field.related_model.objects.get(pk=run_id), groups_by_attempt)


def split_after_outcomes(attempt):
    """Return the tries of an attempt in groups. Each group but the last ends with an outcome; None is the present try."""
    groups = [[]]
    for record in read_records(attempt.earlier):
        groups[-1].append(record)
        if record['status'] in OUTCOMES and record.get('error_type', '') not in NO_OUTCOME_TYPES:
            groups.append([])
    groups[-1].append(None)
    return groups


def read_records(text):
    """Return the records of earlier tries; [] for a text that DevUI did not write, whose attempt stays as it is."""
    try:
        records = json.loads(text)
    except ValueError:
        return []
    return records if isinstance(records, list) else []


def restore_run(apps, run, groups_by_attempt):
    """Move all groups of tries but the first into retries of a run, the second ones into the first retry and so on."""
    later_groups = zip_longest(*(groups[1:] for groups in groups_by_attempt.values()))
    was_ended = run.status not in OPEN
    for groups in later_groups:
        tries = [(attempt, group) for attempt, group in zip(groups_by_attempt, groups) if group]
        retry = copy_run(run, tries)
        for attempt, group in tries:
            move_tries(apps, attempt, group, retry)
        end_run(retry, run.status if was_ended else 'cancelled')
    for attempt, (first_group, *_) in groups_by_attempt.items():
        restore_columns(apps, attempt, first_group)
        attempt.revision = run.revision + 1
        attempt.save()
    run.revision += 1
    end_run(run, run.status)


def copy_run(run, tries):
    """Create the run that has tries of attempts of another run. It lasts from the first start to the last end."""
    columns = {field.name: getattr(run, field.name) for field in run._meta.concrete_fields}
    for name in RUN_DEFAULTS:
        columns[name] = run._meta.get_field(name).get_default()
    starts = [started_at for attempt, group in tries if (started_at := try_column(attempt, group, 'started_at'))]
    ends = [finished_at for attempt, group in tries if (finished_at := try_column(attempt, group, 'finished_at'))]
    created_at = min(starts, default=run.created_at)
    columns |= {
        'id': uuid.uuid4().hex,
        'source': 'retry',
        'repeats': run,
        'case_ids': json.dumps(list(dict.fromkeys(attempt.case_id for attempt, _ in tries)), ensure_ascii=False),
        'created_at': created_at,
        'queued_at': created_at,
        'started_at': min(starts, default=None),
        'finished_at': max(ends, default=created_at),
        'total': len(tries),
    }
    retry = type(run)(**columns)
    retry.save(force_insert=True)
    return retry


def try_column(attempt, group, name):
    """Return a column of the last try of a group."""
    return getattr(attempt, name) if group[-1] is None else group[-1].get(name)


def move_tries(apps, attempt, group, retry):
    """Create the attempt of a retry that has a group of tries. The present try takes its scores along."""
    columns = {field.name: getattr(attempt, field.name) for field in attempt._meta.concrete_fields}
    moved = type(attempt)(**columns | {'id': None, 'run': retry, 'note': '', 'note_person': '', 'revision': 0})
    if group[-1] is not None:
        restore_columns(apps, moved, group)
    else:
        moved.earlier = dump_records(group[:-1])
        moved.tries = len(group) - (attempt.started_at is None)
        if moved.status in OPEN:
            moved.status, moved.runtime, moved.waits_for, moved.stopped_because = 'cancelled', None, '', UPDATED
            moved.finished_at = moved.started_at
    moved.save(force_insert=True)
    if group[-1] is None:
        apps.get_model('evals_app', 'MetricResult').objects.filter(attempt=attempt).update(attempt=moved)


def restore_columns(apps, attempt, group):
    """Set the columns of an attempt to those of a group of recorded tries: the last one is its outcome."""
    record = group[-1]
    unchanged = (*IDENTITY, 'note', 'note_person', 'revision')
    for field in attempt._meta.concrete_fields:
        if field.name not in unchanged:
            setattr(attempt, field.name, field.get_default())
    for name in RECORDED:
        if name in record:
            setattr(attempt, name, record[name])
    sessions = apps.get_model('sessions_app', 'AgentSession').objects
    attempt.session = sessions.filter(pk=record.get('session')).first()
    attempt.earlier = dump_records(group[:-1])
    attempt.tries = len(group)
    attempt.cause = describe_cause(record)


def describe_cause(record):
    """Return the cause of a recorded try, as far as it is known."""
    if record['status'] == 'error':
        first_line = next(iter(record['error'].strip().splitlines()), '')
        return f"{record['error_type']}: {first_line}"[:160]
    return NO_SCORES if record['status'] == 'failed' else ''


def dump_records(records):
    """Return the earlier tries of an attempt as JSON, numbered from 1."""
    numbered = [{**record, 'try': number} for number, record in enumerate(records, start=1)]
    return json.dumps(numbered, ensure_ascii=False, separators=(',', ':'))


def end_run(run, status):
    """Store a run's status and the numbers of its attempts by status. A run without unfinished attempts is done."""
    counts = {column: Count('pk', filter=Q(status=name)) for column, name in COUNTS.items()}
    for column, number in run.attempts.aggregate(**counts).items():
        setattr(run, column, number)
    run.status = status if run.attempts.filter(UNFINISHED).exists() else 'done'
    if run.status == 'done':
        run.finished_at = run.finished_at or run.last_step_at or run.created_at
        for name in REASONS:
            setattr(run, name, '')
    run.save()


class Migration(migrations.Migration):

    dependencies = [
        ('evals_app', '0013_facts_of_environment'),
    ]

    operations = [
        migrations.AlterField(
            model_name='evalrun',
            name='source',
            field=models.CharField(default='page', help_text='page, api, command, pytest or import: who ordered it; confirm or retry: what it repeats.', max_length=16),
        ),
        migrations.AlterField(
            model_name='evalrun',
            name='repeats',
            field=models.ForeignKey(help_text='The run that this one repeats, or of which it repeats a part.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='repeated_by', to='evals_app.evalrun'),
        ),
        migrations.RunPython(move_later_tries, migrations.RunPython.noop),
    ]
