"""Evalset files made, changed and removed. A change is worked out first, so that it can be looked at, then written."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals_app.files import atomic_writes, editing, library
from evals_app.files.atomic_writes import FileChanged, digest_of
from evals_app.files.parsing import EvalsetFile, parse_file, read_text
from evals_app.files.schema import EvalCase
from evals_app.models import EvalSet
from sessions_app.agents.folder import AgentsFolder, configured_folder
from sessions_app.errors import AlreadyExists, BadInput, NotFound

Json = dict[str, Any]

ID = re.compile(r"[a-zA-Z0-9_-]{1,100}")
"""ADK's ids, and hyphens, which its own loader reads."""

MAX_TRIES = 3
"""How often a change that nobody looked at is made anew because the file changed in between."""


@dataclass(frozen=True)
class EvalsetChange:
    """What an edit would make of a file."""

    evalset: EvalSet
    path: Path
    was: EvalsetFile
    will_be: EvalsetFile

    @property
    def before(self) -> str:
        """The whole text as it is."""
        return self.was.text

    @property
    def after(self) -> str:
        """The whole text as it would be."""
        return self.will_be.text

    @property
    def is_none(self) -> bool:
        """Tell whether nothing would change."""
        return self.before == self.after

    @property
    def mark(self) -> str:
        """What tells this change from another one: of both texts."""
        return digest_of(f"{digest_of(self.before)}{digest_of(self.after)}")


@dataclass(frozen=True)
class NewEvalsetFile:
    """A file that is not there yet, as it would be."""

    app_name: str
    path: str
    will_be: EvalsetFile

    before = ""

    @property
    def after(self) -> str:
        """Its whole text."""
        return self.will_be.text

    @property
    def mark(self) -> str:
        """What tells this file from another one: its path and its text."""
        return digest_of(f"{self.path}\n{self.after}")


def agents_folder() -> AgentsFolder:
    """Return the folder that holds the agents and their evalsets.

    Raises:
        NotFound: this server has none.
    """
    folder = configured_folder()
    if folder is None:
        raise NotFound("This server has no folder of agents.", hint="Set DEVUI_AGENTS_DIR.")
    return folder


def current_evalset(app_name: str, evalset_id: str) -> EvalSet:
    """Return the row of an evalset as its file is now.

    Raises:
        NotFound: no such app or evalset.
    """
    library.refresh(agents_folder(), app_name)
    evalset = library.find_evalset(app_name, evalset_id)
    if evalset.gone:
        raise NotFound(f"Eval set `{evalset_id}` not found.", hint="Its file is not there any more.")
    return evalset


def read_evalset_text(evalset: EvalSet) -> str:
    """Return what an evalset's file says now.

    Raises:
        NotFound: it is gone.
        BadFile: it cannot be read.
    """
    return read_text(library.path_of(agents_folder(), evalset), evalset.path)


def read_evalset_file(evalset: EvalSet) -> EvalsetFile:
    """Return an evalset's file as it is now.

    Raises:
        NotFound: it is gone.
        BadFile: it cannot be used.
    """
    path = library.path_of(agents_folder(), evalset)
    return parse_file(read_text(path, evalset.path), path.name, evalset.path)


def read_cases(evalset: EvalSet) -> list[EvalCase]:
    """Return the cases of an evalset's file.

    Raises:
        BadFile: the file cannot be used.
    """
    return read_evalset_file(evalset).content.cases


def plan_change(evalset: EvalSet, edit: editing.Edit, file: EvalsetFile | None = None) -> EvalsetChange:
    """Return what an edit would make of an evalset's file. Nothing is written.

    Args:
        evalset: whose file.
        edit: the edit.
        file: the file as it is now, if somebody has read it.

    Raises:
        NotFound: the file is gone.
        BadFile: it cannot be used as it is, or could not after the edit.
        BadInput: its form cannot hold what is wanted, it lies elsewhere, or whatever `edit` raises.
    """
    path = _editable_path(evalset)
    was = file or read_evalset_file(evalset)
    return EvalsetChange(evalset, path, was, editing.apply_edit(was, edit))


def save_change(change: EvalsetChange, origin: str = "page") -> EvalSet:
    """Write a change, if its file still says what it said when the change was worked out.

    Raises:
        NotFound: the file is gone.
        FileChanged: somebody else changed it.
        BadInput: it cannot be written.
    """
    if not change.is_none:
        try:
            atomic_writes.replace_file(change.path, change.evalset.path, change.before, change.after)
        except OSError as error:
            raise write_error(change.path, error) from error
    return library.refresh_evalset(agents_folder(), change.evalset, origin, change.will_be)


def edit_file(evalset: EvalSet, edit: editing.Edit, origin: str = "page") -> EvalsetChange:
    """Make a change at once, whatever the file says at that moment; return the one that was written.

    Raises:
        FileChanged: others keep on changing it.
        Exception: what `worked_out` and `save` raise.
    """
    for _ in range(MAX_TRIES - 1):
        try:
            return _save_and_return(plan_change(evalset, edit), origin)
        except FileChanged:
            continue
    return _save_and_return(plan_change(evalset, edit), origin)


def _save_and_return(change: EvalsetChange, origin: str) -> EvalsetChange:
    save_change(change, origin)
    return change


def create_evalset(
    app_name: str,
    evalset_id: str,
    cases: list[Json],
    *,
    form: str = "json",
    origin: str = "page",
    **more: Any,
) -> EvalSet:
    """Make a new evalset file beside an agent, in ADK's present form.

    Args:
        app_name: whose.
        evalset_id: the file's name without its ending.
        cases: in ADK's present form.
        form: json or yaml.
        origin: who makes it, as versions tell it.
        more: further fields of the evalset, such as its name.

    Raises:
        NotFound: no such app.
        BadInput: the id cannot be one or is taken, a case cannot be used, or the file cannot be written.
    """
    return add_file(app_name, _build_new_file(evalset_id, cases, form, more), origin=origin)


def plan_new_file(app_name: str, evalset_id: str, cases: list[Json], created_at: float) -> NewEvalsetFile:
    """Return what `create` would write of some cases. Nothing is written.

    Args:
        app_name: whose.
        evalset_id: the file's name without its ending.
        cases: in ADK's present form.
        created_at: seconds since the epoch.

    Raises:
        NotFound: no such app.
        BadInput: the id cannot be one or is taken, or a case cannot be used.
    """
    file = _build_new_file(evalset_id, cases, "json", {"creation_timestamp": created_at})
    _free_path(app_name, file.file_name)
    return NewEvalsetFile(app_name, f"{app_name}/{file.file_name}", file)


def _build_new_file(evalset_id: str, cases: list[Json], form: str, more: Json) -> EvalsetFile:
    name = f"{evalset_id}.evalset.{'yaml' if form == 'yaml' else 'json'}"
    about = {"name": evalset_id, **more}
    about.setdefault("creation_timestamp", time.time())
    return editing.build_file(name, evalset_id, cases, **about)


def add_file(app_name: str, file: EvalsetFile, *, origin: str = "page") -> EvalSet:
    """Put a new evalset file beside an agent as it is.

    Raises:
        NotFound: no such app.
        BadInput: its name makes no id or is taken, or it cannot be written.
    """
    path = _free_path(app_name, file.file_name)
    try:
        atomic_writes.create_file(path, file.text)
    except FileExistsError as error:
        raise EvalsetIdTaken(f"{file.file_name} is there already.", hint="Choose another id.") from error
    except OSError as error:
        raise write_error(path, error) from error
    library.refresh(agents_folder(), app_name, origin, written=file)
    return library.find_evalset(app_name, library.id_of_file(file.file_name))


def _free_path(app_name: str, file_name: str) -> Path:
    """Return where a new evalset file is to stand.

    Raises:
        NotFound: no such app.
        BadInput: its name makes no id or is taken.
    """
    evalset_id = library.id_of_file(file_name)
    if not ID.fullmatch(evalset_id.removesuffix(library.TEST_INFIX)):
        raise BadInput(
            f"Invalid Eval Set ID. Eval Set ID should have the `^{ID.pattern}$` format",
            hint="Choose a name of letters, digits, hyphens and underscores.",
        )
    folder = agents_folder().folder_of(app_name)
    if evalset_id in library.find_files(folder):
        raise EvalsetIdTaken(
            f"EvalSet {evalset_id} already exists for app {app_name}.", hint="Choose another id."
        )
    return folder / file_name


def remove_evalset(app_name: str, evalset_id: str) -> None:
    """Remove an evalset's file. The runs that used it stay, with what it said.

    Raises:
        NotFound: no such app or evalset.
        BadInput: the file cannot be removed.
    """
    path = _editable_path(current_evalset(app_name, evalset_id))
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_error(path, error) from error
    library.refresh(agents_folder(), app_name)


def write_error(path: Path, error: OSError) -> BadInput:
    """Return the refusal of a folder or a disk, in words."""
    return BadInput(
        f"{path.name} cannot be written: {error.strerror}.", hint="Check the rights of the agent's folder."
    )


def _editable_path(evalset: EvalSet) -> Path:
    """Return where an evalset's file is, links followed.

    Raises:
        BadInput: that is not below the folder of agents.
    """
    agents = agents_folder()
    path = library.path_of(agents, evalset).resolve()
    if not path.is_relative_to(agents.root.resolve()):
        raise BadInput(
            f"{evalset.path} lies outside the folder of agents and is changed by hand only.",
            hint="Upload it to have it beside its agent.",
        )
    return path


class EvalsetIdTaken(BadInput, AlreadyExists):
    """An evalset's id is taken, which ADK's server answers as a bad request."""

    status = BadInput.status
    code = AlreadyExists.code
