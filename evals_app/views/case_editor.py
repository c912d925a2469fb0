"""Pages to create and edit a case: the form, and a preview of the changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from evals_app.cases import edits
from evals_app.cases import review as case_review
from evals_app.cases.case_forms import (
    NEW_ROW_DEFAULTS,
    OWN_PERSONA,
    PERSONAS,
    RUBRIC_TYPES,
    CaseForm,
    case_form_data,
)
from evals_app.cases.form_fields import CaseField, Nested, parse_nested, rearrange_rows
from evals_app.cases.known_tools import read_known_tools
from evals_app.cases.review import CaseReview, FormBase
from evals_app.cases.versions import find_version
from evals_app.files import BadFile, library
from evals_app.files.file_changes import EvalsetChange
from evals_app.models import EvalAttempt, EvalSet
from sessions_app.http import render_partial
from sessions_app.lookup import parse_number
from sessions_app.paths import seg_reverse
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError

FORM = "devui/evals/case_form.html"
PERSONAS_OFFERED = [
    ("", "none"),
    *((name, f"{name.capitalize()}, as ADK describes it") for name in PERSONAS),
    (OWN_PERSONA, "custom"),
]
REARRANGING = ("add:", "drop:", "up:", "down:")
Json = dict[str, Any]


@dataclass(frozen=True)
class EditorPage:
    """Context of the form's page besides its fields."""

    opened: FormBase
    base: Json
    data: Nested
    raw: str = ""
    as_text: bool = False
    review: CaseReview | None = None
    error: DevUIError | None = None
    has_changed: bool = False


async def edit(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show the form of a case: `?id=` to edit one, `?copy=` a copy of one, neither: an empty one.

    `?attempt=` names the attempt that leads here, to which the page leads back.

    A POST with `action=review` shows what it would change of the file, with `action=save` writes what was shown.

    Raises:
        NotFound: no such evalset or case.
    """
    await units_of_work.write(library.refresh_known, app_name)
    if request.method != "POST":
        return await units_of_work.read(_open_form, request, app_name, evalset_id)
    page = await units_of_work.read(_read_posted_form, request.POST, app_name, evalset_id)
    review = page.review
    if request.POST.get("action") == "save" and review and review.change:
        try:
            saved = await units_of_work.write(
                case_review.save_reviewed, review.change, request.POST.get("seen", "")
            )
        except DevUIError as error:
            page = replace(page, error=error)
        else:
            if saved is not None:
                attempt = await units_of_work.read(find_attempt, saved, request.POST.get("attempt", ""))
                return redirect(evalset_url(saved, [review.case["eval_id"]], attempt))
            page = replace(page, has_changed=True)
    return await units_of_work.read(_render_editor, request, app_name, evalset_id, page)


def evalset_url(evalset: EvalSet, saved: Sequence[str] = (), attempt: EvalAttempt | None = None) -> str:
    """Return the address of an evalset's page, which says that some cases were saved, and for which attempt."""
    path = seg_reverse("evalset", app_name=evalset.app_name, evalset_id=evalset.evalset_id)
    query: dict[str, Sequence[str] | int] = {"saved": saved, **({"attempt": attempt.pk} if attempt else {})}
    return f"{path}?{urlencode(query, doseq=True)}" if saved else path


def cancel_url(evalset: EvalSet, attempt: EvalAttempt | None) -> str:
    """Return the address that a change of a case was opened from: its attempt, else the evalset's page."""
    if attempt is None:
        return evalset_url(evalset)
    return f"{reverse('eval-run', kwargs={'run_id': attempt.run_id})}?attempt={attempt.pk}"


def find_attempt(evalset: EvalSet, number: str) -> EvalAttempt | None:
    """Return the attempt of an evalset that an address or a form names, with its run; None if there is none."""
    pk = parse_number(number)
    attempts = EvalAttempt.objects.select_related("run").filter(run__evalset=evalset)
    return attempts.filter(pk=pk).first() if pk is not None else None


def change_context(change: EvalsetChange | None, error: DevUIError | None) -> dict[str, Any]:
    """Return the template context of a planned change, or of why there is none."""
    return {
        "change": change,
        "lines": case_review.diff_texts(change.before, change.after) if change else [],
        "error": error,
        "problems": error.problems if isinstance(error, BadFile) else [],
    }


def _open_form(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    evalset = library.find_evalset(app_name, evalset_id)
    library.check_usable(evalset)
    query = request.GET
    as_text = query.get("view") == "json"
    if "id" in query or "copy" in query:
        is_new = "copy" in query
        index = case_review.case_index(evalset, query["copy" if is_new else "id"], query.get("at", ""))
        opened = FormBase(evalset.digest, index, is_new)
        stored_case = case_review.base_case(evalset, opened)
        shown_case = _version_case(evalset, query, stored_case)
    else:
        opened, stored_case, shown_case = FormBase("", None, True), {}, {}
    existing_ids = {case["id"] for case in library.case_summaries(evalset)}
    data = (
        case_review.copy_form(shown_case, existing_ids)
        if opened.is_new and stored_case
        else case_form_data(shown_case)
    )
    if not shown_case:
        data = {**data, "case_id": edits.free_id("case-1", existing_ids), "turns": [{}]}
    return _render_editor(
        request,
        app_name,
        evalset_id,
        EditorPage(opened, stored_case, data, _pretty_json(shown_case), as_text),
    )


def _version_case(evalset: EvalSet, query: QueryDict, stored_case: Json) -> Json:
    """Return the case as a version had it that `?version=` names, else as it is."""
    if (version := parse_number(query.get("version", ""))) is None:
        return stored_case
    cases: list[Json] = json.loads(find_version(evalset, version).content)["eval_cases"]
    return next((case for case in cases if case.get("eval_id") == stored_case.get("eval_id")), stored_case)


def _read_posted_form(post: QueryDict, app_name: str, evalset_id: str) -> EditorPage:
    """Return the result of a submitted form, without writing it."""
    evalset = library.find_evalset(app_name, evalset_id)
    opened = _read_opened(post)
    data = parse_nested((name, post.get(name, "")) for name in post)
    raw, as_text = post.get("raw", "").replace("\r\n", "\n"), post.get("view") == "json"
    page = EditorPage(opened, {}, data, raw, as_text)
    action = post.get("action", "review")
    try:
        page = replace(page, base=case_review.base_case(evalset, opened))
        if action.startswith(REARRANGING):
            return replace(page, data=rearrange_rows(data, action, NEW_ROW_DEFAULTS))
        make = partial(case_review.parse_form, data=data, app_name=app_name)
        if as_text:
            make = partial(case_review.parse_json, text=raw)
        return replace(page, review=case_review.review_case(evalset, opened, make))
    except DevUIError as error:
        return replace(page, error=error)


def _read_opened(post: QueryDict) -> FormBase:
    index_text = post.get("place", "")
    is_place = index_text.isdecimal() and len(index_text) < 8
    return FormBase(
        post.get("digest", ""), int(index_text) if is_place else None, "is_new" in post or not is_place
    )


def _render_editor(request: HttpRequest, app_name: str, evalset_id: str, page: EditorPage) -> HttpResponse:
    evalset = library.find_evalset(app_name, evalset_id)
    errors = page.review.errors if page.review else {}
    tools = read_known_tools(app_name)
    attempt = find_attempt(evalset, (request.POST or request.GET).get("attempt", ""))
    context = {
        **change_context(page.review.change if page.review else None, page.error),
        "evalset": evalset,
        "page": page,
        "draft": CaseForm.of(page.data, page.base, errors, tools),
        "tools": tools,
        "raw": CaseField("raw", page.raw, errors.get("raw", "")),
        "opened": page.opened,
        "case_id": page.base.get("eval_id", "") if not page.opened.is_new else "",
        "faults": [CaseField(name, error=error) for name, error in errors.items()],
        "personas": PERSONAS_OFFERED,
        "rubric_types": RUBRIC_TYPES,
        "has_changed": page.has_changed,
        "attempt": attempt,
        "other_view": None if page.as_text else "json",
        "cancel_url": cancel_url(evalset, attempt),
    }
    status = page.error.status if page.error else 422 if errors else 200
    return render_partial(request, FORM, context, partial="fields", target="case-fields", status=status)


def _pretty_json(case: Json) -> str:
    if not case:
        case = {"eval_id": "", "conversation": [{"user_content": {"role": "user", "parts": [{"text": ""}]}}]}
    return json.dumps(case, ensure_ascii=False, indent=2)
