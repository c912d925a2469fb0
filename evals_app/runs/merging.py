"""Import of runs from other stores: shards are merged into one run, whole runs are copied."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from django.db import DataError, IntegrityError, connection, transaction

from evals_app.models import CONFIRMATION, RETRY, EvalRun
from evals_app.runs.shards import Shard
from evals_app.runs.writes.copied_runs import StoredRun, copy_run, merge_shards, read_runs
from sessions_app.store.database.db_errors import translate_db_errors
from sessions_app.store.database.store_kind import is_file_store
from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import join_names
from sessions_app.transfer.realm_copy import StoreFile

MERGEABLE = {EvalRun.Status.DONE, EvalRun.Status.STOPPED, EvalRun.Status.CANCELLED}
FACTS: Mapping[str, Callable[[StoredRun], object]] = {
    "code": lambda stored: stored.run.code_version,
    "commit": lambda stored: stored.run.git_revision,
    "evalset": lambda stored: stored.version.digest,
    "configuration": lambda stored: stored.run.config,
    "models": lambda stored: stored.run.agent_models,
    "google-adk": lambda stored: stored.run.adk_version,
    "replay": lambda stored: stored.run.policy,
    "repetitions": lambda stored: stored.run.num_runs,
    "chosen cases": lambda stored: stored.run.case_ids,
    "prices": lambda stored: stored.run.prices,
}
"""Facts that all shards of a run have in common."""

DAMAGES = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(DataError, IntegrityError, sqlite3.Error),
)
"""Errors of reading or copying rows that DevUI did not write."""

JSON_COLUMNS = ("config", "case_ids", "limits", "policy", "prices", "warnings", "agent_models")


Result = TypeVar("Result")


@dataclass(frozen=True)
class Merge:
    """Result of a merge: the runs made of shards, and the number of whole runs that were copied."""

    runs: list[EvalRun]
    copied: int


def merge_stores(paths: Sequence[Path], history: int) -> Merge:
    """Merge the shards in SQLite files of stores into one run for each evalset, and copy whole runs.

    A merge that is repeated finds its run. Nothing is written if anything is refused. Runs of variants, and runs that
    repeat a part of another run, are left out.

    Args:
        paths: the files.
        history: number of whole runs of an evalset to copy, the newest ones.

    Raises:
        BadInput: a file is no such store or is damaged, or its shards are not all parts of one run.
        StoreFault: this store cannot be written.
    """
    with _open_stores(paths, "Run the shard of the damaged store again.") as runs_by_source:
        stored_runs = [stored for runs in runs_by_source for stored in runs if stored.run.source != RETRY]
        groups = _group_runs(stored for stored in stored_runs if stored.run.shard)
        _require_all_shards(groups, sum(not runs for runs in runs_by_source))
        for shards in groups.values():
            _check_shards(shards)

        def write() -> Merge:
            copied = sum(map(_copy_stored_run, _newest_whole_runs(stored_runs, history)))
            return Merge([_merge_shards(shards) for shards in groups.values()], copied)

        return _write_completely(write)


def copy_earlier_runs(path: Path, runs: Sequence[EvalRun], history: int) -> int:
    """Copy whole runs from the SQLite file of another store, to compare merged runs with; return their number.

    Nothing is written if the store is refused.

    Args:
        runs: the merged runs.
        history: number of whole runs of an evalset to copy, the newest ones.

    Raises:
        BadInput: the file is no such store or is damaged, or has no earlier run of any of the evalsets.
        StoreFault: this store cannot be written.
    """
    with _open_stores([path], "Run the evals of its branch again.") as [stored_runs]:
        _require_earlier_run(path, stored_runs, runs)
        chosen = _newest_whole_runs(stored_runs, history)
        return _write_completely(lambda: sum(map(_copy_stored_run, chosen)))


@contextmanager
def _open_stores(paths: Sequence[Path], hint: str) -> Iterator[list[list[StoredRun]]]:
    """Open stores; yield the runs of each, without those of variants. `hint` says what to do about damaged ones.

    Raises:
        BadInput: a file is no store, or is damaged; also if that shows only inside the block.
    """
    with translate_db_errors(), ExitStack() as opened:
        opened.enter_context(_refuse_damaged_rows(paths, hint))
        sources = [opened.enter_context(closing(_open_store(path))) for path in paths]
        runs_by_source = [
            [stored for stored in read_runs(source) if not stored.run.variant_hash] for source in sources
        ]
        for stored in chain.from_iterable(runs_by_source):
            for column in JSON_COLUMNS:
                json.loads(getattr(stored.run, column))
        for content in {stored.version.content for stored in chain.from_iterable(runs_by_source)}:
            json.loads(content)["eval_cases"]
        yield runs_by_source


def _write_completely(write: Callable[[], Result]) -> Result:
    """Call a function in a transaction.

    It is repeated once after an error of integrity: another process may have merged the same shards meanwhile, and
    now its runs are found.
    """
    try:
        with transaction.atomic():
            return write()
    except IntegrityError:
        with transaction.atomic():
            return write()


def _require_earlier_run(path: Path, stored_runs: Sequence[StoredRun], runs: Sequence[EvalRun]) -> None:
    """Require a whole run of one of the evalsets, from before its merged run.

    Raises:
        BadInput: the store has none.
    """
    times = {(run.app_name, run.evalset.evalset_id): run.created_at for run in runs}
    groups = _group_runs(stored for stored in stored_runs if not stored.run.shard)
    if any(
        stored.run.created_at < times.get(name, 0.0) for name, group in groups.items() for stored in group
    ):
        return
    stored_names = _join_evalsets(groups)
    raise BadInput(
        f"{str(path)!r} has no earlier run of {_join_evalsets(times)}"
        f" ({f'it has runs of {stored_names}' if stored_names else 'it has no runs'}).",
        hint="Run the evalset on the branch that this store comes from.",
    )


def _join_evalsets(names: Iterable[tuple[str, str]]) -> str:
    """Return the apps and evalsets of a message."""
    return join_names(["/".join(name) for name in names])


def _open_store(path: Path) -> StoreFile:
    store, target = StoreFile(path), Path(connection.settings_dict["NAME"])
    if is_file_store() and target.exists() and path.samefile(target):
        store.close()
        raise BadInput(
            f"{str(path)!r} is the store to merge into.", hint="Set DATABASE_URL to another store."
        )
    return store


@contextmanager
def _refuse_damaged_rows(paths: Sequence[Path], hint: str) -> Iterator[None]:
    """Refuse damaged files, and stores with rows of other columns, types or keys than DevUI writes.

    Raises:
        BadInput: reading or copying the rows failed.
    """
    try:
        yield
    except DAMAGES as error:
        names = ", ".join(str(path) for path in paths)
        store = "One of these stores" if len(paths) > 1 else "This store"
        raise BadInput(
            f"{store} has rows that DevUI did not write ({error!r}): {names}.", hint=hint
        ) from error


def _group_runs(stored_runs: Iterable[StoredRun]) -> dict[tuple[str, str], list[StoredRun]]:
    """Return runs by app and evalset."""
    groups: dict[tuple[str, str], list[StoredRun]] = defaultdict(list)
    for stored in stored_runs:
        groups[stored.run.app_name, stored.evalset.evalset_id].append(stored)
    return groups


def _newest_whole_runs(stored_runs: Sequence[StoredRun], history: int) -> list[StoredRun]:
    """Return the newest whole runs of each evalset, each with the confirmations of its cases behind it."""
    whole_runs = [stored for stored in stored_runs if not stored.run.shard and not stored.run.active]
    whole_runs.sort(key=lambda stored: -stored.run.created_at)
    confirmations: dict[str, list[StoredRun]] = defaultdict(list)
    for stored in whole_runs:
        if stored.run.source == CONFIRMATION:
            confirmations[stored.run.repeats_id or ""].append(stored)
    groups = _group_runs(stored for stored in whole_runs if stored.run.source != CONFIRMATION)
    newest = [stored for runs in groups.values() for stored in runs[:history]]
    return [copy for stored in newest for copy in (stored, *confirmations[stored.run.pk])]


def _copy_stored_run(stored: StoredRun) -> bool:
    if EvalRun.objects.filter(pk=stored.run.pk).exists():
        return False
    copy_run(stored)
    return True


def _merge_shards(shards: Sequence[StoredRun]) -> EvalRun:
    ids = sorted(shard.run.pk for shard in shards)
    run_id = uuid.uuid5(uuid.NAMESPACE_URL, f"devui-shards/{'/'.join(ids)}").hex
    run = EvalRun.objects.select_related("evalset", "version").filter(pk=run_id).first()
    return run or merge_shards(run_id, shards)


def _require_all_shards(groups: Mapping[tuple[str, str], Sequence[StoredRun]], empty_stores: int) -> None:
    """Require a store for each shard; one whose cases are fewer than shards has an empty store.

    Raises:
        BadInput: stores are missing.
    """
    shards = [Shard.parse(stored.run.shard) for group in groups.values() for stored in group]
    counts = sorted({shard.count for shard in shards})
    if len(counts) > 1:
        raise BadInput(
            f"These are shards of {' and of '.join(map(str, counts))}.", hint="Merge the shards of one build."
        )
    missing = sorted(set(range(1, max(counts, default=0) + 1)) - {shard.number for shard in shards})
    if len(missing) > empty_stores:
        names = ", ".join(f"{number}/{counts[0]}" for number in missing)
        raise BadInput(f"No store has shard {names}.", hint="Name the stores of all shards.")


def _check_shards(shards: Sequence[StoredRun]) -> None:
    """Require that shards are all parts of one run, each once.

    Raises:
        BadInput: they are not; the message names what is wrong.
    """
    first = shards[0]
    name = f"{first.run.app_name}/{first.evalset.evalset_id}"
    for stored in shards:
        if stored.run.status not in MERGEABLE:
            raise BadInput(
                f"Shard {stored.run.shard} of {name} in {str(stored.source.path)!r}:"
                f" {stored.run.get_status_display().lower()}. {stored.run.error}".strip(),
                hint="Run this shard again.",
            )
        if differences := [fact for fact, value in FACTS.items() if value(stored) != value(first)]:
            raise BadInput(
                f"Shards {first.run.shard} and {stored.run.shard} of {name} differ in {', '.join(differences)}.",
                hint="Run all shards of one checkout with the same options and packages.",
            )
    if repeated := [
        shard for shard, count in Counter(stored.run.shard for stored in shards).items() if count > 1
    ]:
        paths = ", ".join(str(stored.source.path) for stored in shards if stored.run.shard == repeated[0])
        raise BadInput(
            f"Shard {repeated[0]} of {name} is there more than once: {paths}.",
            hint="Name each store once, and run each shard in an empty store.",
        )
    _check_cases(shards, name)


def _check_cases(shards: Sequence[StoredRun], name: str) -> None:
    """Require that shards have all chosen cases, each once."""
    first = shards[0]
    ids = [case["eval_id"] for case in json.loads(first.version.content)["eval_cases"]]
    chosen_ids = json.loads(first.run.case_ids)
    chosen = {position for position, case_id in enumerate(ids) if not chosen_ids or case_id in chosen_ids}
    indexes = Counter(
        index for stored in shards for index in {attempt.case_index for _, attempt in stored.attempts()}
    )
    wrong = sorted({index for index, count in indexes.items() if count > 1} | (chosen - indexes.keys()))
    if wrong:
        cases = join_names([ids[index] for index in wrong])
        raise BadInput(
            f"{name}: {len(wrong)} cases are in none of the shards, or in several: {cases}.",
            hint="Name the stores of all shards, and run all of them with the same evalsets in the same order.",
        )
