"""Writes of runs from other stores of DevUI: copies of whole runs, and one run of several shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from evals_app.models import EvalAttempt, EvalRun, EvalSet, EvalSetVersion, MetricResult
from evals_app.runs.writes.revisions import COUNT_COLUMNS
from sessions_app.store import realms, scopes
from sessions_app.store.database import change_notification
from sessions_app.transfer import realm_copy
from sessions_app.transfer.realm_copy import StoreFile


@dataclass(frozen=True)
class StoredRun:
    """A run in another store. The primary keys of its rows mean nothing in this one."""

    source: StoreFile
    run: EvalRun
    evalset: EvalSet
    version: EvalSetVersion

    def attempts(self) -> Iterator[tuple[int, EvalAttempt]]:
        """Yield (primary key there, row) of each attempt."""
        return self.source.rows(EvalAttempt, run_id=self.run.pk)


def read_runs(source: StoreFile) -> list[StoredRun]:
    """Return the runs of another store."""
    evalsets = dict(source.rows(EvalSet))
    versions = dict(source.rows(EvalSetVersion))
    return [
        StoredRun(source, run, evalsets[run.evalset_id], versions[run.version_id])
        for _, run in source.rows(EvalRun)
    ]


def copy_run(stored: StoredRun) -> EvalRun:
    """Copy a run under its id. If it is the baseline, it remains so unless its evalset has one here."""
    return _write_run([stored], {})


def merge_shards(run_id: str, shards: Sequence[StoredRun]) -> EvalRun:
    """Create one run with the attempts of shards. It lasts from the first start to the last end."""
    runs = [shard.run for shard in shards]
    incomplete_run = next((run for run in runs if run.status != EvalRun.Status.DONE), runs[0])
    counts = {
        column: sum(getattr(run, column) for run in runs) for column in ("total", *COUNT_COLUMNS.values())
    }
    return _write_run(
        shards,
        {
            "id": run_id,
            "shard": "",
            "baseline": False,
            "status": incomplete_run.status,
            "stopped_because": incomplete_run.stopped_because,
            "created_at": min(run.created_at for run in runs),
            "queued_at": min(run.queued_at for run in runs),
            "started_at": min((run.started_at for run in runs if run.started_at), default=None),
            "finished_at": max((run.finished_at for run in runs if run.finished_at), default=None),
            "spent_seconds": 0.0,
            "resumed": 0,
            **counts,
        },
    )


def _write_run(parts: Sequence[StoredRun], changes: Mapping[str, Any]) -> EvalRun:
    """Write a run like the first part, with the attempts of all parts, completely or not at all."""
    first = parts[0].run
    columns = {field.attname: getattr(first, field.attname) for field in EvalRun._meta.concrete_fields}
    with transaction.atomic():
        version = _store_version(parts[0])
        columns |= {"version_id": version.pk, "evalset_id": version.evalset_id}
        columns |= {"runtime_id": None, **_known_run_ids(first), **changes}
        run = EvalRun(**columns)
        run.baseline &= not EvalRun.objects.filter(evalset=version.evalset, baseline=True).exists()
        run.save(force_insert=True)
        for part in parts:
            _copy_attempts(part, run)
        change_notification.notify_after_commit()
    return EvalRun.objects.select_related("evalset", "version").get(pk=run.pk)


def _known_run_ids(run: EvalRun) -> dict[str, str | None]:
    """Return the columns of a run that name other runs; None for a run that this store does not have."""
    columns = ("repeats_id", "variant_of_id")
    ids = [run_id for name in columns if (run_id := getattr(run, name))]
    known_ids = set(EvalRun.objects.filter(pk__in=ids).values_list("pk", flat=True))
    return {name: run_id if (run_id := getattr(run, name)) in known_ids else None for name in columns}


def _store_version(stored: StoredRun) -> EvalSetVersion:
    """Return the version of the evalset that a run used; create what this store does not have."""
    evalset, version = stored.evalset, stored.version
    names = {"app_name": evalset.app_name, "evalset_id": evalset.evalset_id}
    own_evalset, _ = EvalSet.objects.get_or_create(**names, defaults=_column_values(evalset))
    own_version, _ = EvalSetVersion.objects.get_or_create(
        evalset=own_evalset,
        digest=version.digest,
        defaults={**_column_values(version), "evalset_id": own_evalset.pk},
    )
    return own_version


def _column_values(row: EvalSet | EvalSetVersion) -> dict[str, Any]:
    fields = row._meta.concrete_fields
    return {field.attname: getattr(row, field.attname) for field in fields if not field.primary_key}


def _attempt_realms(stored: StoredRun) -> Iterator[str]:
    """Yield the realms of a run's attempts and of their earlier tries."""
    for _, attempt in stored.attempts():
        yield attempt.realm
        yield from (tried["realm"] for tried in attempt.earlier_tries)


def _copy_attempts(part: StoredRun, run: EvalRun) -> None:
    """Copy the attempts of a part with their scores and realms, which are named after the run."""
    prefix, new_prefix = f"{realms.ATTEMPT}{part.run.pk}/", f"{realms.ATTEMPT}{run.pk}/"
    sessions: dict[int, int] = {}
    new_realms = {realm: new_prefix + realm.removeprefix(prefix) for realm in _attempt_realms(part)}
    for realm, new_realm in new_realms.items():
        sessions |= realm_copy.copy_realm(part.source, realm, new_realm)
    for key, attempt in part.attempts():
        earlier = [
            {**tried, "realm": new_realms[tried["realm"]], "session": sessions.get(tried.get("session") or 0)}
            for tried in attempt.earlier_tries
        ]
        attempt.run_id, attempt.realm, attempt.runtime_id = run.pk, new_realms[attempt.realm], None
        attempt.session_id = sessions.get(attempt.session_id or 0)
        attempt.earlier = scopes.dumps(earlier)
        attempt.save(force_insert=True)
        scores = [score for _, score in part.source.rows(MetricResult, attempt_id=key)]
        for score in scores:
            score.attempt_id = attempt.pk
        MetricResult.objects.bulk_create(scores)
