"""Page of an evalset's trend."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from evals_app.analysis import trends
from evals_app.files import library
from sessions_app.http import render_partial


def trend(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show how the runs of an evalset went, the newest ones, and what changed in between.

    Raises:
        NotFound: no evalset has this app and id.
    """
    evalset = library.find_evalset(app_name, evalset_id)
    context = {"evalset": evalset, "trend": trends.read_evalset_trend(evalset, request.GET.get("page", ""))}
    return render_partial(request, "devui/evals/trend.html", context, partial="histories")
