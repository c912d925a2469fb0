"""Actions on an evalset: remove a case, accept an answer, add cases from a file, remove or download the file.

Each first shows a preview; the file is written as shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from evals_app.cases import edits, review, uploads
from evals_app.cases.accepted_answers import accept_actual
from evals_app.files import file_changes, library
from evals_app.files.editing import Edit
from evals_app.files.file_changes import EvalsetChange
from evals_app.metrics.catalog import TRAJECTORY
from evals_app.models import EvalSet
from evals_app.views.case_editor import cancel_url, change_context, evalset_url, find_attempt
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError, NotFound

CHANGE = "devui/evals/change.html"
DELETE = "devui/evals/evalset_delete.html"

TITLES = {
    "remove": "Remove a case",
    "accept": "Accept an answer",
    "add": "Add cases from a file",
}


@dataclass(frozen=True)
class FileAction:
    """An action on an evalset's file and its fields."""

    name: str
    fields: Mapping[str, str]

    @classmethod
    def of(cls, fields: QueryDict) -> FileAction:
        """Return the action that form fields describe.

        Raises:
            BadInput: there is no such action.
        """
        name = fields.get("action", "")
        if name not in TITLES:
            raise BadInput(f"{name!r} is no action on an evalset.", hint=f"Actions are {', '.join(TITLES)}.")
        field_names = ("id", "at", "attempt", "file_name", "file_text")
        return cls(
            name,
            {key: fields.get(key, "").replace("\r\n", "\n") for key in field_names if key in fields},
        )

    def edit(self, evalset: EvalSet) -> Edit | None:
        """Return the edit of the evalset; None if cases are to be added and no file has been chosen.

        Raises:
            BadFile: the file whose cases are to be added cannot be used.
            NotFound: the attempt whose answer is to be accepted does not exist.
        """
        fields = self.fields
        if self.name == "accept":
            return _accept_edit(evalset, fields.get("attempt", ""))
        if self.name == "remove":
            index_text = fields.get("at", "")
            index = int(index_text) if index_text.isdecimal() and len(index_text) < 8 else None
            return partial(edits.remove_case, case_id=fields.get("id", ""), hint=index)
        if "file_text" not in fields:
            return None
        cases = uploads.read_cases(fields.get("file_name", ""), fields["file_text"])
        return partial(edits.append_cases, new_cases=cases)


def _accept_edit(evalset: EvalSet, attempt: str) -> Edit:
    row = find_attempt(evalset, attempt)
    if row is None:
        raise NotFound(f"The evalset has no attempt {attempt[:40]!r}.", hint="Open it from its run.")
    return partial(
        accept_actual,
        case_id=row.case_id,
        hint=row.case_index,
        actual=json.loads(row.actual),
        author=evalset.app_name,
        with_calls=TRAJECTORY in (json.loads(row.run.config).get("criteria") or {}),
    )


async def change(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show what `action` would change of an evalset's file; a POST with the mark of what was shown writes it.

    Raises:
        NotFound: no such evalset.
        BadInput: there is no such action.
    """
    await units_of_work.write(library.refresh_known, app_name)
    if request.method != "POST":
        return await units_of_work.read(
            _render_dialog, request, app_name, evalset_id, FileAction.of(request.GET)
        )
    action = FileAction.of(request.POST)
    planned_change, has_changed = None, False
    try:
        action = await units_of_work.read(_with_file, request, action)
        planned_change = await units_of_work.read(_plan_change, app_name, evalset_id, action)
        if planned_change and "seen" in request.POST:
            saved = await units_of_work.write(review.save_reviewed, planned_change, request.POST["seen"])
            if saved is not None:
                attempt = await units_of_work.read(find_attempt, saved, action.fields.get("attempt", ""))
                return redirect(evalset_url(saved, [attempt.case_id] if attempt else [], attempt))
            has_changed = True
    except DevUIError as error:
        return await units_of_work.read(_render_dialog, request, app_name, evalset_id, action, error)
    return await units_of_work.read(
        _render_dialog, request, app_name, evalset_id, action, None, planned_change, has_changed
    )


def _with_file(request: HttpRequest, action: FileAction) -> FileAction:
    """Return the action with the content of the uploaded file, if there is one."""
    file = request.FILES.get("file")
    if file is None:
        return action
    name = uploads.base_name(file.name or "")
    return FileAction(action.name, {"file_name": name, "file_text": uploads.decode_upload(name, file.read())})


def _plan_change(app_name: str, evalset_id: str, action: FileAction) -> EvalsetChange | None:
    evalset = library.find_evalset(app_name, evalset_id)
    edit = action.edit(evalset)
    return file_changes.plan_change(evalset, edit) if edit else None


def _render_dialog(
    request: HttpRequest,
    app_name: str,
    evalset_id: str,
    action: FileAction,
    error: DevUIError | None = None,
    planned_change: EvalsetChange | None = None,
    has_changed: bool = False,
) -> HttpResponse:
    evalset = library.find_evalset(app_name, evalset_id)
    if error is None and planned_change is None:
        try:
            planned_change = _plan_change(app_name, evalset_id, action)
        except DevUIError as refusal:
            error = refusal
    attempt = find_attempt(evalset, action.fields.get("attempt", ""))
    context = {
        **change_context(planned_change, error),
        "evalset": evalset,
        "title": TITLES[action.name],
        "action": action,
        "fields": action.fields,
        "place": _case_position(evalset, action),
        "has_changed": has_changed,
        "attempt": attempt,
        "cancel_url": cancel_url(evalset, attempt),
        "most": uploads.MAX_BYTES,
    }
    return render(request, CHANGE, context, status=error.status if error else 200)


def _case_position(evalset: EvalSet, action: FileAction) -> int:
    """Return the position of the action's case in the evalset, from 1; 0 if it has none."""
    try:
        return review.case_index(evalset, action.fields.get("id", ""), action.fields.get("at", "")) + 1
    except NotFound:
        return 0


async def delete(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Ask whether an evalset's file is to be removed; remove it. Its runs stay, with what it said.

    Raises:
        NotFound: no such evalset.
        BadInput: the file cannot be removed.
    """
    await units_of_work.write(library.refresh_known, app_name)
    if request.method != "POST":
        return await units_of_work.read(_render_deletion, request, app_name, evalset_id)
    await units_of_work.write(file_changes.remove_evalset, app_name, evalset_id)
    return redirect("evals")


def _render_deletion(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    evalset = library.find_evalset(app_name, evalset_id)
    return render(request, DELETE, {"evalset": evalset, "runs": evalset.runs.count()})


async def file(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Send an evalset's file as it is.

    Raises:
        NotFound: no such evalset, or its file is gone.
    """
    await units_of_work.write(library.refresh_known, app_name)
    evalset, text = await units_of_work.read(_read_file, app_name, evalset_id)
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    name = evalset.path.rpartition("/")[2].encode("ascii", "replace").decode().replace('"', "_")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _read_file(app_name: str, evalset_id: str) -> tuple[EvalSet, str]:
    evalset = library.find_evalset(app_name, evalset_id)
    return evalset, file_changes.read_evalset_text(evalset)
