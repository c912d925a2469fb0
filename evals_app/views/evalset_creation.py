"""Pages to create evalsets: a new one, uploads, and cases of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from evals_app.cases import edits, review, session_cases, uploads
from evals_app.cases.session_cases import CaseOptions, SessionTurn, WrittenKey
from evals_app.files import BadFile, file_changes, library
from evals_app.files.file_changes import EvalsetChange
from evals_app.models import EvalSet
from evals_app.views.case_editor import change_context, evalset_url
from evals_app.views.evalsets import runnable_apps
from sessions_app.http import note_object
from sessions_app.lookup import find_session
from sessions_app.store import realms
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession

NEW = "devui/evals/evalset_new.html"
UPLOAD = "devui/evals/evalset_upload.html"
RECORD = "devui/evals/record.html"

MOST_FILES = 20
MOST_SESSIONS = 50
"""Maximum number of sessions that become cases at once."""

Json = dict[str, Any]
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
    note_object(request, ", ".join(name for name, _ in files[:MOST_FILES]), app=app_name)
    done, refused = await _put_files(app_name, files[:MOST_FILES])
    if not files or len(files) > MOST_FILES:
        what = f"{len(files)} files at once are too many." if files else "No file was chosen."
        refused.append(("", BadInput(what, hint=f"Choose up to {MOST_FILES} files.")))
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
        "most_files": MOST_FILES,
    }
    return render(request, UPLOAD, context, status=refused[0][1].status if refused else 200)


@dataclass(frozen=True)
class CaseSource:
    """A session that is to become a case."""

    session: AgentSession
    turns: list[SessionTurn]
    part: list[SessionTurn]
    keys: list[WrittenKey]
    case_id: str

    @property
    def first(self) -> str:
        """Invocation of the first turn of the part."""
        return self.part[0].invocation_id if self.part else ""

    @property
    def last(self) -> str:
        """Invocation of the last turn of the part."""
        return self.part[-1].invocation_id if self.part else ""


@dataclass(frozen=True)
class CasesRequest:
    """A request to create cases: sessions, the part of one, target evalset, and expectations."""

    sessions: list[int]
    first: str
    last: str
    ids: list[str]
    target: str
    new_id: str
    options: CaseOptions
    reviewed: str

    @classmethod
    def of(cls, fields: QueryDict, *, is_form: bool) -> CasesRequest:
        """Read it; without a form, what a case usually expects."""
        sessions = [int(pk) for pk in fields.getlist("session") if pk.isdecimal() and len(pk) < 19]
        options = CaseOptions(True, True, None if len(sessions) > 1 else frozenset(), False)
        if is_form:
            keys = None if "all_keys" in fields else frozenset(fields.getlist("key"))
            options = CaseOptions("answers" in fields, "steps" in fields, keys, "turn_states" in fields)
        return cls(
            list(dict.fromkeys(sessions)),
            fields.get("first", ""),
            fields.get("last", ""),
            fields.getlist("case_id"),
            fields.get("target", ""),
            fields.get("new_id", "").strip(),
            options,
            fields.get("seen", ""),
        )


async def record(request: HttpRequest) -> HttpResponse:
    """Make cases of the sessions that `?session=` names; of one, the part from `?first=` to `?last=` if wanted.

    A GET with `action=choose` shows the form again for another part; a POST shows what would be written, with the mark
    of what was shown it writes that.

    Raises:
        SessionMissing: there is no such session.
        BadInput: none is named, or they are of several apps.
    """
    fields = request.POST if request.method == "POST" else request.GET
    wish = CasesRequest.of(fields, is_form=request.method == "POST")
    sources = await units_of_work.read(_read_sources, wish)
    app_name = sources[0].session.app_name
    note_object(request, wish.target or wish.new_id, app=app_name)
    await units_of_work.write(library.refresh_known, app_name)
    if request.method != "POST" or fields.get("action") == "choose":
        return await units_of_work.read(_render_record_form, request, wish, sources)
    try:
        cases = []
        for source in sources:
            conversation = await session_cases.fetch_conversation(source.session)
            cases.append(await units_of_work.read(_build_case, wish, source, conversation))
        planned_change = await units_of_work.read(_plan_cases, app_name, wish, cases)
        if wish.reviewed:
            saved = await units_of_work.write(review.save_reviewed, planned_change, wish.reviewed, "session")
            if saved is not None:
                added = planned_change.will_be.content.cases[-len(cases) :]  # under the ids that were free
                return redirect(evalset_url(saved, [case.eval_id for case in added]))
    except DevUIError as error:
        return await units_of_work.read(_render_record_form, request, wish, sources, None, error)
    return await units_of_work.read(_render_record_form, request, wish, sources, planned_change, None)


def _plan_cases(app_name: str, wish: CasesRequest, cases: list[Json]) -> EvalsetChange:
    if not wish.target:
        return file_changes.plan_new_file(app_name, wish.new_id, cases)
    evalset = library.find_evalset(app_name, wish.target)
    return file_changes.plan_change(evalset, partial(edits.append_cases, new_cases=cases))


def _read_sources(wish: CasesRequest) -> list[CaseSource]:
    if not wish.sessions or len(wish.sessions) > MOST_SESSIONS:
        raise BadInput(
            "No session is named." if not wish.sessions else f"{len(wish.sessions)} sessions are too many.",
            hint=f"Tick up to {MOST_SESSIONS} sessions in the list.",
        )
    used_ids: set[str] = set()
    sources = [
        _read_source(find_session(pk), wish, index, used_ids) for index, pk in enumerate(wish.sessions)
    ]
    apps = sorted({source.session.app_name for source in sources})
    if len(apps) > 1:
        raise BadInput(
            f"The sessions are of several agents: {', '.join(apps)}.",
            hint="An evalset is one agent's: choose sessions of one.",
        )
    return sources


def _read_source(session: AgentSession, wish: CasesRequest, index: int, used_ids: set[str]) -> CaseSource:
    realms.refuse_nested(session)
    turns = session_cases.find_turns(session)
    part = turns
    if len(wish.sessions) == 1:
        part = session_cases.select_turns(turns, wish.first, wish.last)
    requested_id = wish.ids[index].strip() if index < len(wish.ids) else ""
    keys = session_cases.find_written_keys(session, part)
    name = edits.free_id(requested_id or session_cases.suggest_id(session, part), used_ids)
    used_ids.add(name)
    return CaseSource(session, turns, part, keys, name)


def _build_case(wish: CasesRequest, source: CaseSource, conversation: list[Json]) -> Json:
    return session_cases.build_case(source.session, source.part, conversation, source.case_id, wish.options)


def _render_record_form(
    request: HttpRequest,
    wish: CasesRequest,
    sources: list[CaseSource],
    change: EvalsetChange | None = None,
    error: DevUIError | None = None,
) -> HttpResponse:
    app_name = sources[0].session.app_name
    targets = EvalSet.objects.filter(app_name=app_name, gone=False, problems="[]").order_by("evalset_id")
    context = {
        "wish": wish,
        "sources": sources,
        "only": sources[0] if len(sources) == 1 else None,
        "app_name": app_name,
        "targets": list(targets.values_list("evalset_id", flat=True)),
        **change_context(change, error),
        "has_changed": bool(change and wish.reviewed),
        "apps": runnable_apps(),
    }
    return render(request, RECORD, context, status=error.status if error else 200)
