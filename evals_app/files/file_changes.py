"""Creation, change and removal of evalset files. A change is planned first, so that users can review it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from evals_app.files import atomic_writes, editing, library
from evals_app.files.atomic_writes import FileChanged, text_digest
from evals_app.files.parsing import EvalsetFile, parse_file, read_text
from evals_app.files.schema import EvalCase
from evals_app.models import EvalSet
from sessions_app.agents.folder import AgentsFolder, configured_folder
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound

Json = dict[str, Any]

ID = re.compile(r"[a-zA-Z0-9_-]{1,100}")
"""Valid ids: ADK's, and hyphens, which its loader accepts."""

MAX_TRIES = 3
"""Attempts at a change that needs no review, when the file changes in between."""


@dataclass(frozen=True)
class EvalsetChange:
    """Planned change of an evalset file. `was` and `evalset` are None for a new file."""

    app_name: str
    path: Path
    will_be: EvalsetFile
    evalset: EvalSet | None = None
    was: EvalsetFile | None = None

    @property
    def before(self) -> str:
        """The present text; "" for a new file."""
        return self.was.text if self.was else ""

    @property
    def after(self) -> str:
        """The new text."""
        return self.will_be.text

    @property
    def shown_as(self) -> str:
        """The path of the file below the agents folder."""
        return self.evalset.path if self.evalset else f"{self.app_name}/{self.path.name}"

    @property
    def mark(self) -> str:
        """Digest of path and texts, which identifies the change."""
        return text_digest("\n".join(map(text_digest, (self.shown_as, self.before, self.after))))


def agents_folder() -> AgentsFolder:
    """Return the folder that holds the agents and their evalsets.

    Raises:
        NotFound: the server has no folder of agents.
    """
    folder = configured_folder()
    if folder is None:
        raise NotFound("This server has no folder of agents.", hint="Set DEVUI_AGENTS_DIR.")
    return folder


def current_evalset(app_name: str, evalset_id: str) -> EvalSet:
    """Return the row of an evalset, refreshed from its file.

    Raises:
        NotFound: the app or evalset does not exist.
    """
    library.refresh(agents_folder(), app_name)
    evalset = library.find_evalset(app_name, evalset_id)
    if evalset.gone:
        raise NotFound(f"Eval set `{evalset_id}` not found.", hint="Its file is not there any more.")
    return evalset


def read_evalset_text(evalset: EvalSet) -> str:
    """Return the text of an evalset's file.

    Raises:
        NotFound: the file does not exist.
        BadFile: the file cannot be read.
        BadInput: the file is outside the agents folder, and agents run as another user.
    """
    return read_text(_readable_path(evalset), evalset.path)


def read_evalset_file(evalset: EvalSet) -> EvalsetFile:
    """Parse an evalset's file.

    Raises:
        NotFound: the file does not exist.
        BadFile: the file is invalid.
        BadInput: the file is outside the agents folder, and agents run as another user.
    """
    path = _readable_path(evalset)
    return parse_file(read_text(path, evalset.path), path.name, evalset.path)


def read_cases(evalset: EvalSet) -> list[EvalCase]:
    """Return the cases of an evalset's file.

    Raises:
        BadFile: the file is invalid.
    """
    return read_evalset_file(evalset).content.cases


def plan_change(evalset: EvalSet, edit: editing.Edit, file: EvalsetFile | None = None) -> EvalsetChange:
    """Return the change that an edit makes to an evalset's file (`file`, if the caller has it). Nothing is written.

    Raises:
        NotFound: the file does not exist.
        BadFile: the file is invalid, before or after the edit.
        BadInput: the file's form cannot hold the result, the file is outside the agents folder, or `edit` raises it.
    """
    path = _editable_path(evalset)
    was = file or read_evalset_file(evalset)
    return EvalsetChange(evalset.app_name, path, editing.apply_edit(was, edit), evalset, was)


def save_change(change: EvalsetChange, origin: str = "page") -> EvalSet:
    """Write a change, unless the file has changed since the change was planned.

    Raises:
        NotFound: the file does not exist.
        FileChanged: the file has changed.
        BadInput: the file cannot be written.
    """
    if change.evalset is None:
        return add_file(change.app_name, change.will_be, origin=origin)
    if change.before != change.after:
        try:
            atomic_writes.replace_file(change.path, change.shown_as, change.before, change.after)
        except OSError as error:
            raise write_error(change.path, error) from error
    return library.refresh_evalset(agents_folder(), change.evalset, origin, change.will_be)


def edit_file(evalset: EvalSet, edit: editing.Edit, origin: str = "page") -> EvalsetChange:
    """Edit a file without review and return the change. Retry when the file changes in between.

    Raises:
        FileChanged: the file changed at every attempt.
        Exception: errors of `plan_change` and `save_change`.
    """
    for tries_left in reversed(range(MAX_TRIES)):
        change = plan_change(evalset, edit)
        try:
            save_change(change, origin)
            break
        except FileChanged:
            if not tries_left:
                raise
    return change


def create_evalset(
    app_name: str, evalset_id: str, cases: list[Json], form: str = "json", **more: Any
) -> EvalSet:
    """Create an evalset file in an agent's folder; see `build_new_file`.

    Raises:
        NotFound: the app does not exist.
        BadInput: the id is invalid or taken, a case is invalid, or the file cannot be written.
    """
    return add_file(app_name, build_new_file(evalset_id, cases, form, creation_timestamp=time.time(), **more))


def plan_new_file(app_name: str, evalset_id: str, cases: list[Json]) -> EvalsetChange:
    """Return a new file with cases, for review. Nothing is written.

    Raises:
        NotFound: the app does not exist.
        BadInput: the id is invalid or taken, or a case is invalid.
    """
    file = build_new_file(evalset_id, cases)
    return EvalsetChange(app_name, _free_path(app_name, file.file_name), file)


def build_new_file(evalset_id: str, cases: list[Json], form: str = "json", **more: Any) -> EvalsetFile:
    """Return a new evalset file in ADK's present form.

    Args:
        evalset_id: the file's name without its suffix.
        form: json or yaml.
        more: further fields of the evalset, such as its name.

    Raises:
        BadFile: a case is invalid.
    """
    name = f"{evalset_id}.evalset.{'yaml' if form == 'yaml' else 'json'}"
    about = {"name": evalset_id, **more}
    return editing.build_file(name, evalset_id, cases, **about)


def add_file(app_name: str, file: EvalsetFile, *, origin: str = "page") -> EvalSet:
    """Write a new evalset file to an agent's folder unchanged.

    Raises:
        NotFound: the app does not exist.
        BadInput: the name is invalid or taken, or the file cannot be written.
    """
    path = _free_path(app_name, file.file_name)
    try:
        atomic_writes.create_file(path, file.text)
    except FileExistsError as error:
        raise EvalsetIdTaken(f"{file.file_name} is there already.", hint="Choose another id.") from error
    except OSError as error:
        raise write_error(path, error) from error
    library.refresh(agents_folder(), app_name, origin, new_file=file)
    return library.find_evalset(app_name, library.file_evalset_id(file.file_name))


def _free_path(app_name: str, file_name: str) -> Path:
    """Return the path for a new evalset file.

    Raises:
        NotFound: the app does not exist.
        BadInput: the name is invalid or taken.
    """
    evalset_id = library.file_evalset_id(file_name)
    if not ID.fullmatch(evalset_id.removesuffix(library.TEST_INFIX)):
        raise BadInput(
            f"Invalid Eval Set ID. Eval Set ID should have the `^{ID.pattern}$` format",
            hint="Choose a name of letters, digits, hyphens and underscores.",
        )
    folder = agents_folder().app_folder(app_name)
    if evalset_id in library.find_files(folder):
        raise EvalsetIdTaken(
            f"EvalSet {evalset_id} already exists for app {app_name}.", hint="Choose another id."
        )
    return folder / file_name


def remove_evalset(app_name: str, evalset_id: str) -> None:
    """Remove an evalset's file. Its runs and versions stay.

    Raises:
        NotFound: the app or evalset does not exist.
        BadInput: the file cannot be removed.
    """
    path = _editable_path(current_evalset(app_name, evalset_id))
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(path, error) from error
    library.refresh(agents_folder(), app_name)


def write_error(path: Path, error: OSError) -> BadInput:
    """Return the error for a file that cannot be written."""
    return BadInput(
        f"{path.name} cannot be written: {error.strerror}.", hint="Check the rights of the agent's folder."
    )


def _readable_path(evalset: EvalSet) -> Path:
    """Return the path of an evalset's file.

    Agents that run as another user can write it into the row: it could be that of any file of the server.

    Raises:
        BadInput: agents run as another user, and the path is outside the agents folder.
    """
    is_writable_by_others = bool(getattr(settings, "DEVUI_AGENT_USER", ""))
    return (
        _editable_path(evalset) if is_writable_by_others else library.evalset_path(agents_folder(), evalset)
    )


def _editable_path(evalset: EvalSet) -> Path:
    """Return the path of an evalset's file, with links resolved.

    Raises:
        BadInput: the path is outside the agents folder.
    """
    agents = agents_folder()
    path = library.evalset_path(agents, evalset).resolve()
    if not path.is_relative_to(agents.root.resolve()):
        raise BadInput(
            f"{evalset.path} lies outside the folder of agents and is changed by hand only.",
            hint="Upload it to have it beside its agent.",
        )
    return path


class EvalsetIdTaken(BadInput, AlreadyExists):
    """The evalset's id is taken. ADK's server responds with 400, too."""

    status = BadInput.status
    code = AlreadyExists.code
