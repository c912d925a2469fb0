"""Library of the evalset files in agents' folders, mirrored into rows. Unchanged files are not read again."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.db import transaction

from evals_app.files import BadFile, EvalSetContent, FileProblem, parse, read_text
from evals_app.files.atomic_writes import text_digest
from evals_app.files.parsing import YAML_SUFFIXES, EvalsetFile
from evals_app.files.schema import EvalCase
from evals_app.models import EvalSet, EvalSetVersion, KnownMetric
from sessions_app.agents.folder import AgentsFolder, configured_folder
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.errors import NotFound
from sessions_app.store.short_texts import truncate

EVALSET_SUFFIXES = (".evalset.json", ".evalset.yaml", ".evalset.yml")
TEST_INFIX = ".test"
TEST_SUFFIX = f"{TEST_INFIX}.json"
PREVIEW_LENGTH = 200

ORIGIN_DISK = "disk"
"""Origin of a version that was read from its file."""


def find_files(folder: Path) -> dict[str, Path]:
    """Return the evalset files of an agent's folder by id.

    The id is the file's name without its suffix, as in ADK; `*.test.json` keeps `.test`. If several files have the
    same id, the others than ADK's own form keep their suffix. U+FFFD replaces invalid characters. Links to nothing,
    pipes and the like are listed, too: reading them says what is wrong.
    """
    files: dict[str, Path] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if not os.path.isdir(folder / name))
    except OSError:
        return {}  # removed, or not readable
    for suffix in EVALSET_SUFFIXES:
        for name in names:
            if name.endswith(suffix):
                stem = scopes.clean_text(name.removesuffix(suffix))
                files[stem if stem not in files else stem + suffix.removeprefix(".evalset")] = folder / name
    for name in names:
        if name.endswith(TEST_SUFFIX):
            files[scopes.clean_text(name.removesuffix(".json"))] = folder / name
    return dict(sorted(files.items()))


def file_evalset_id(name: str) -> str:
    """Return the evalset id for a file's name; "" if the name is not that of an evalset."""
    suffix = next((end for end in EVALSET_SUFFIXES if name.endswith(end)), "")
    if suffix:
        return name.removesuffix(suffix)
    return name.removesuffix(".json") if name.endswith(TEST_SUFFIX) else ""


def refresh(
    agents: AgentsFolder, app_name: str, origin: str = ORIGIN_DISK, *, new_file: EvalsetFile | None = None
) -> None:
    """Update the rows of an app's evalsets from their files. `origin` is stored with new versions.

    `new_file` is a file that the caller has just written, which need not be parsed again.
    """
    rows = {row.evalset_id: row for row in EvalSet.objects.filter(app_name=app_name)}
    files = find_files(agents.app_folder(app_name))
    for evalset_id, path in files.items():
        with contextlib.suppress(FileNotFoundError, NotFound):  # removed in between
            _mirror_file(agents, app_name, evalset_id, path, rows.get(evalset_id), origin, new_file)
    missing = [row for name, row in rows.items() if name not in files and not row.gone]
    if gone_pks := [row.pk for row in missing if not evalset_path(agents, row).is_file()]:
        mark_gone(gone_pks)


def refresh_known(app_name: str = "") -> None:
    """Update the rows of the evalsets of one app, or of all apps if empty, from their files."""
    agents = configured_folder()
    if agents is None:
        return
    names = agents.names()
    for name in names if not app_name else {app_name} & set(names):
        refresh(agents, name)


def register_file(agents: AgentsFolder, app_name: str, path: Path) -> EvalSet:
    """Return the row of an evalset file at any path, created or updated from the file.

    Raises:
        NotFound: the file does not exist.
        BadFile: the file is invalid.
    """
    if not os.path.lexists(path):
        raise NotFound(f"{path}: there is no such file.", hint="Name an evalset file, or the id of one.")
    path = _real_path(path)
    beside = {_real_path(file): name for name, file in find_files(agents.app_folder(app_name)).items()}
    evalset_id = beside.get(path) or _unique_id(agents, app_name, path)
    row = EvalSet.objects.filter(app_name=app_name, evalset_id=evalset_id).first()
    evalset = _mirror_file(agents, app_name, evalset_id, path, row)
    check_usable(evalset)
    return evalset


def refresh_evalset(
    agents: AgentsFolder, evalset: EvalSet, origin: str = ORIGIN_DISK, new_file: EvalsetFile | None = None
) -> EvalSet:
    """Return an evalset's row, updated from its file, or marked as gone.

    `new_file` is the file if the caller has just written it, so that it need not be parsed again.
    """
    path = evalset_path(agents, evalset)
    with contextlib.suppress(FileNotFoundError, NotFound):
        return _mirror_file(agents, evalset.app_name, evalset.evalset_id, path, evalset, origin, new_file)
    mark_gone([evalset.pk])
    evalset.gone = True
    return evalset


def find_evalset(app_name: str, evalset_id: str) -> EvalSet:
    """Return the row of an evalset.

    Raises:
        NotFound: the app has no evalset with this id.
    """
    evalset = EvalSet.objects.filter(app_name=app_name, evalset_id=evalset_id).first()
    if evalset is None:
        raise NotFound(
            f"Agent {app_name!r} has no evalset {evalset_id!r}.",
            hint=f"Evalsets are files such as {evalset_id}.evalset.json beside the agent.",
        )
    return evalset


def case_summaries(evalset: EvalSet) -> list[dict[str, Any]]:
    """Return the summaries of the cases: [{id, turns, scenario, says}]."""
    cases: list[dict[str, Any]] = json.loads(evalset.cases)
    return cases


def file_warnings(evalset: EvalSet) -> list[str]:
    """Return the warnings about an evalset's file."""
    warnings: list[str] = json.loads(evalset.warnings)
    return warnings


def evalset_path(agents: AgentsFolder, evalset: EvalSet) -> Path:
    """Return the path of an evalset's file."""
    return agents.root / evalset.path


def check_usable(evalset: EvalSet) -> None:
    """Check that an evalset's file exists and is valid.

    Raises:
        BadFile: the file is invalid.
        NotFound: the file no longer exists.
    """
    if evalset.gone:
        raise NotFound(f"{evalset.path}: the file no longer exists.", hint="Put it back to run it again.")
    if problems := file_problems(evalset):
        raise BadFile(problems)


def current_version(evalset: EvalSet) -> EvalSetVersion:
    """Return the current version of an evalset."""
    return evalset.versions.get(digest=evalset.digest)


def mirror(
    app_name: str,
    evalset_id: str,
    columns: Mapping[str, Any],
    content: Mapping[str, Any] | None,
    origin: str = "disk",
) -> EvalSet:
    """Store the state of an evalset file. `content` is None for an invalid file, whose last valid version stays.

    `origin` (disk, page, api or session) is stored with a new version.
    """
    with transaction.atomic():
        evalset, _ = EvalSet.objects.update_or_create(
            app_name=app_name,
            evalset_id=evalset_id,
            defaults={**columns, "gone": False, "seen_at": time.time()},
        )
        if content is not None:
            EvalSetVersion.objects.get_or_create(
                evalset=evalset,
                digest=columns["digest"],
                defaults={"content": scopes.dumps(content), "created_at": time.time(), "origin": origin},
            )
        change_notification.notify_after_commit()
    return evalset


def mark_gone(pks: Iterable[int]) -> None:
    """Mark evalsets whose file no longer exists. Their runs stay."""
    with transaction.atomic():
        EvalSet.objects.filter(pk__in=list(pks), gone=False).update(gone=True)
        change_notification.notify_after_commit()


def store_metrics(metrics: Iterable[Mapping[str, Any]], adk_version: str) -> None:
    """Store the metrics that a runtime described, if they have changed."""
    stored = dict(KnownMetric.objects.values_list("name", "data"))
    news = {metric["name"]: scopes.dumps(metric) for metric in metrics}
    rows = [
        KnownMetric(name=name, data=data, adk_version=adk_version, seen_at=time.time())
        for name, data in news.items()
        if stored.get(name) != data
    ]
    KnownMetric.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["name"], update_fields=["data", "adk_version", "seen_at"]
    )


def _mirror_file(
    agents: AgentsFolder,
    app_name: str,
    evalset_id: str,
    path: Path,
    row: EvalSet | None,
    origin: str = ORIGIN_DISK,
    new_file: EvalsetFile | None = None,
) -> EvalSet:
    stamp = _file_stamp(path)
    if row is not None and row.stamp == stamp and not row.gone:
        return row
    real_name = _display_path(agents, path)
    display_path = scopes.clean_text(real_name)
    columns: dict[str, Any] = {"path": display_path, "stamp": stamp}
    try:
        if display_path != real_name:
            raise BadFile([FileProblem(display_path, "has a name that is not UTF-8: rename the file")])
        text = read_text(path, display_path)
        columns["digest"] = text_digest(text)
        is_known = new_file is not None and (new_file.file_name, new_file.text) == (path.name, text)
        content = new_file.content if new_file and is_known else parse(text, path.name, display_path)
    except BadFile as error:
        return mirror(app_name, evalset_id, {**columns, "problems": scopes.dumps(error.as_json())}, None)
    return mirror(app_name, evalset_id, {**columns, **_content_summary(content)}, content.as_adk(), origin)


def _content_summary(content: EvalSetContent) -> Mapping[str, Any]:
    return {
        "format": content.format,
        "form": content.form,
        "name": content.name,
        "description": content.description,
        "cases": scopes.dumps([_case_summary(case) for case in content.cases]),
        "case_count": len(content.cases),
        "problems": "[]",
        "warnings": scopes.dumps(content.warnings),
    }


def file_problems(evalset: EvalSet) -> list[FileProblem]:
    """Return the problems of an evalset's file."""
    return [FileProblem(**problem) for problem in json.loads(evalset.problems)]


def _case_summary(case: EvalCase) -> Mapping[str, Any]:
    scenario = case.conversation_scenario
    if scenario is not None:
        return {
            "id": case.eval_id,
            "turns": 0,
            "scenario": True,
            "says": truncate(scenario.starting_prompt, PREVIEW_LENGTH),
        }
    turns = case.conversation or []
    parts = (turns[0].user_content.parts or []) if turns else []
    says = " ".join(part.text for part in parts if part.text)
    return {
        "id": case.eval_id,
        "turns": len(turns),
        "scenario": False,
        "says": truncate(says, PREVIEW_LENGTH),
    }


def _unique_id(agents: AgentsFolder, app_name: str, path: Path) -> str:
    """Return an id for a file outside the folder: its name, with a suffix if that id is taken."""
    suffix = next(
        (end for end in (*EVALSET_SUFFIXES, ".json", *YAML_SUFFIXES) if path.name.endswith(end)), ""
    )
    name = path.name.removesuffix(suffix) or path.name
    duplicates = EvalSet.objects.filter(app_name=app_name, evalset_id=name).exclude(
        path=_display_path(agents, path)
    )
    return f"{name}~{sha256(str(path).encode()).hexdigest()[:6]}" if duplicates.exists() else name


def _file_stamp(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        stat = path.lstat()  # a link to nothing
    return f"{stat.st_size}-{stat.st_mtime_ns}"


def _real_path(path: Path) -> Path:
    """Return the absolute path of a file without links, except one to nothing."""
    return path.resolve() if path.exists() else path.parent.resolve() / path.name


def _display_path(agents: AgentsFolder, path: Path) -> str:
    """Return the path of a file relative to the agents folder, or its full path outside of it."""
    path = _real_path(path)
    return str(path.relative_to(agents.root)) if path.is_relative_to(agents.root) else str(path)
