"""Tokens and cost of an app or a user."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.query import OwnerQuery
from sessions_app.prices.session_usage import total_spending


def spending(request: HttpRequest) -> HttpResponse:
    """Render tokens and cost of the sessions of `?app=` and `?user=`. Pages load it later: it may take long."""
    query = OwnerQuery(request.GET).read()
    amounts = total_spending(query["app"], query["user"])
    context = {"spending": amounts, "app": query["app"], "user": query["user"]}
    return render(request, "devui/components/spending.html", context)
