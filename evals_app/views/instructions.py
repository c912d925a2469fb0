"""Page of the instructions that the agents of an app have had."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from evals_app.analysis.instruction_history import MAX_CALLS, read_instruction_history
from evals_app.analysis.instruction_versions import KEY_LENGTH
from evals_app.cases.review import diff_texts
from sessions_app.forms.query import QueryForm
from sessions_app.sessions import overview

PAGE = "devui/evals/instructions.html"


class ComparisonQuery(QueryForm):
    """The keys of two instructions whose difference is shown."""

    before = forms.CharField(required=False, max_length=KEY_LENGTH)
    after = forms.CharField(required=False, max_length=KEY_LENGTH)


def history(request: HttpRequest, app_name: str) -> HttpResponse:
    """Show the instructions of an app's agents; `?before=` and `?after=` show the difference of two.

    Raises:
        NotFound: the app is unknown, or no recorded call has an instruction of the query.
    """
    overview.require_agent(app_name)
    query = ComparisonQuery(request.GET).read()
    instructions = read_instruction_history(app_name)
    compared = None
    if query["before"] and query["after"]:
        compared = [instructions.find_version(query[name]) for name in ("before", "after")]
    context = {
        "app_name": app_name,
        "history": instructions,
        "max_calls": MAX_CALLS,
        "query": query,
        "compared": compared,
        "lines": diff_texts(compared[0].text, compared[1].text) if compared else [],
    }
    return render(request, PAGE, context)
