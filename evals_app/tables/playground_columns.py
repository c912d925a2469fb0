"""Columns of the list of playground runs."""

from __future__ import annotations

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from evals_app.models import PlaygroundAnswer, PlaygroundRun
from sessions_app.paths import session_url
from sessions_app.presentation import visible_text
from sessions_app.store.database.pagination import Order
from sessions_app.store.short_texts import join_names
from sessions_app.tables.table import Column, Table, linked_name
from sessions_app.templatetags import devui

NO_NAME = "unnamed run"


def _name_cell(run: PlaygroundRun) -> SafeString:
    url = reverse("playground-run", kwargs={"pk": run.session_id, "call": run.call_id, "run": run.pk})
    return format_html('<a href="{}"><bdi>{}</bdi></a>', url, visible_text.name_html(run.name or NO_NAME))


def _session_cell(run: PlaygroundRun) -> SafeString:
    return linked_name(session_url(run.session), run.session.name)


def _list_models(run: PlaygroundRun) -> str:
    return join_names(list(dict.fromkeys(answer.model for answer in run.answers.all())))


def _count_answers(run: PlaygroundRun) -> str:
    """Return how many answers there are, and how many of them are not done, by status."""
    statuses = [answer.status for answer in run.answers.all()]
    others = [
        f"{count} {status.label.lower()}"
        for status in PlaygroundAnswer.Status
        if status != PlaygroundAnswer.Status.DONE and (count := statuses.count(status))
    ]
    return ", ".join([str(len(statuses)), *others])


TABLE: Table[PlaygroundRun] = Table(
    name="playground-runs",
    title="Playground runs",
    noun="playground run",
    icon="run",
    default_sort="-started",
    row_id="playground-run",
    row_key=lambda run: run.pk,
    csv_route="playground-runs-csv",
    columns=(
        Column("name", "Name", value=lambda run: run.name or NO_NAME, cell=_name_cell, css="cell-main"),
        Column("app", "App", value=lambda run: run.session.app_name, css="name-cell"),
        Column(
            "session",
            "Session",
            value=lambda run: run.session.session_id,
            cell=_session_cell,
            css="name-cell",
        ),
        Column("agent", "Agent", value=lambda run: run.call.agent, css="name-cell"),
        Column("models", "Models", value=_list_models, css="name-cell"),
        Column("answers", "Answers", value=_count_answers),
        Column("person", "Started by", value=lambda run: run.person, css="name-cell"),
        Column(
            "started",
            "Started",
            value=lambda run: run.created_at,
            show=devui.moment,
            order=Order("-pk"),
            css="fit",
        ),
    ),
)
