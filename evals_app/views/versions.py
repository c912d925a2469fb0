"""Pages of an evalset's versions: the list, and the comparison of two."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from evals_app.cases import versions
from evals_app.files import library
from evals_app.models import EvalSet, EvalSetVersion
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput

VERSIONS = "devui/evals/versions.html"


async def index(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show an evalset's versions, with `?case=` those that changed a case; two of them with `?from=` and `?to=`.

    Raises:
        NotFound: no such evalset or version.
        BadInput: a parameter is no version's number.
    """
    await units_of_work.write(library.refresh_known, app_name)
    return await units_of_work.read(_render_index, request, app_name, evalset_id)


def _render_index(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    evalset = library.find_evalset(app_name, evalset_id)
    case_id = request.GET.get("case", "")
    pair = _find_versions(evalset, request.GET.get("from", ""), request.GET.get("to", ""))
    context = {
        "evalset": evalset,
        "case_id": case_id,
        "rows": versions.list_versions(evalset, case_id),
        "most": versions.MAX_LISTED,
        "pair": pair,
        "differences": versions.compare_versions(*pair, case_id) if pair else [],
    }
    return render(request, VERSIONS, context)


def _find_versions(evalset: EvalSet, older: str, newer: str) -> tuple[EvalSetVersion, EvalSetVersion] | None:
    if not older or not newer:
        return None
    if not (older.isdecimal() and newer.isdecimal() and len(older + newer) < 36):
        raise BadInput("Versions are named by their numbers.", hint="Choose two from the list.")
    return versions.find_version(evalset, int(older)), versions.find_version(evalset, int(newer))
