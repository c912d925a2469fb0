"""The page of the audit log, and its export."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from typing import IO, Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import get_resolver

from devui.accounts import audit, audit_columns
from devui.accounts.forms import AuditExportQuery, AuditQuery
from devui.accounts.models import AuditEntry
from sessions_app.http import download, render_partial
from sessions_app.presentation import csv_cells
from sessions_app.routes import list_rules
from sessions_app.store.database import pagination

PAGE = "devui/accounts/audit.html"
CONTENT_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv; charset=utf-8"}
BATCH = 2_000


def audit_log(request: HttpRequest) -> HttpResponse:
    """List audit entries."""
    query = AuditQuery(request.GET).read()
    table = audit_columns.TABLE.arrange(request)
    page = pagination.paginate(_filter_entries(query), table.order, query["before"], is_counted=True)
    context = {
        **table.page_context(page, page.rows),
        "query": query,
        "since": request.GET.get("since", ""),
        "until": request.GET.get("until", ""),
        "is_filtered": any(query[name] for name in ("person", "action", "object", "since", "until")),
        "actions": _list_actions(),
    }
    return render_partial(request, PAGE, context, partial="audit")


def export(request: HttpRequest) -> StreamingHttpResponse:
    """Download the entries that match, oldest first, as JSON lines or CSV."""
    query = AuditExportQuery(request.GET).read()
    entries = _filter_entries(query).order_by("at", "pk").values(*audit.FIELDS)
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the response closes it
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    if query["format"] == "csv":
        rows = csv.writer(text)
        rows.writerow(audit.FIELDS)
        for entry in entries.iterator(BATCH):
            rows.writerow([csv_cells.csv_cell(value) for value in entry.values()])
    else:
        for entry in entries.iterator(BATCH):
            text.write(json.dumps(entry, ensure_ascii=False) + "\n")
    text.detach()
    file.seek(0)
    return download(file, f"audit.{query['format']}", CONTENT_TYPES[query["format"]])


def _list_actions() -> list[str]:
    """Return the actions of all rules and commands."""
    rules = [rule for *_, rule in list_rules(get_resolver().url_patterns)]
    names = {variant.action for rule in rules for variant in (rule, *rule.variants.values())}
    return sorted({*names, "purge"} - {""})


def _filter_entries(query: dict[str, Any]) -> QuerySet[AuditEntry]:
    return audit.filter_entries(
        query["person"], query["action"], query["object"], query["since"], query["until"]
    )
