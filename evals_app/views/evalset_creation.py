"""Pages to create evalsets: a new one, and uploads."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from evals_app.cases import uploads
from evals_app.files import BadFile, file_changes
from evals_app.models import EvalSet
from evals_app.views.case_editor import evalset_url
from evals_app.views.evalsets import runnable_apps
from sessions_app.http import note_object
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError

NEW = "devui/evals/evalset_new.html"
UPLOAD = "devui/evals/evalset_upload.html"

MAX_FILES = 20

File = tuple[str, bytes]
"""Name and content of an upload."""

Refused = list[tuple[str, DevUIError]]
"""Name of a file → why it was refused; "": all of them."""


async def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new evalset; make one."""
    if request.method != "POST":
        return await units_of_work.read(_render_new_form, request, request.GET)
    post = request.POST
    note_object(request, post.get("id", "").strip(), app=post.get("app", ""))
    about = {"description": description} if (description := post.get("description", "").strip()) else {}
    try:
        evalset = await units_of_work.write(
            lambda: file_changes.create_evalset(
                post.get("app", ""), post.get("id", "").strip(), [], form=post.get("form", "json"), **about
            )
        )
    except DevUIError as error:
        return await units_of_work.read(_render_new_form, request, post, error)
    return redirect(evalset_url(evalset))


def _render_new_form(
    request: HttpRequest, fields: QueryDict, error: DevUIError | None = None
) -> HttpResponse:
    context = {"fields": fields, "apps": runnable_apps(), "error": error}
    return render(request, NEW, context, status=error.status if error else 200)


async def upload(request: HttpRequest) -> HttpResponse:
    """Show the form that uploads evalsets, scenarios or a `test_config.json`; put them beside their agent."""
    if request.method != "POST":
        return await units_of_work.read(_render_upload_form, request, request.GET, [], [])
    app_name = request.POST.get("app", "")
    files = [(file.name or "", file.read(uploads.MAX_BYTES + 1)) for file in request.FILES.getlist("file")]
    note_object(request, ", ".join(name for name, _ in files[:MAX_FILES]), app=app_name)
    done, refused = await _put_files(app_name, files[:MAX_FILES])
    if not files or len(files) > MAX_FILES:
        what = f"{len(files)} files at once are too many." if files else "No file was chosen."
        refused.append(("", BadInput(what, hint=f"Choose up to {MAX_FILES} files.")))
    if not refused and len(done) == 1 and done[0]:
        return redirect(evalset_url(done[0]))
    return await units_of_work.read(_render_upload_form, request, request.POST, done, refused)


async def _put_files(app_name: str, files: list[File]) -> tuple[list[EvalSet | None], Refused]:
    """Put files beside an agent; return what became of them, and why others were refused."""
    done: list[EvalSet | None] = []
    refused: Refused = []
    for name, content in files:
        try:
            file = await units_of_work.read(uploads.parse_upload, name, content)  # others write meanwhile
            done.append(await units_of_work.write(uploads.store_upload, app_name, file))
        except DevUIError as error:
            refused.append((name, error))
    return done, refused


def _render_upload_form(
    request: HttpRequest,
    fields: QueryDict,
    done: list[EvalSet | None],
    refused: Refused,
) -> HttpResponse:
    faults = [(name, error, error.problems if isinstance(error, BadFile) else []) for name, error in refused]
    context = {
        "fields": fields,
        "apps": runnable_apps(),
        "done": done,
        "refused": faults,
        "most": uploads.MAX_BYTES,
        "most_files": MAX_FILES,
    }
    return render(request, UPLOAD, context, status=refused[0][1].status if refused else 200)
