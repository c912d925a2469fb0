"""Rows that mirror evalset files and ADK's metrics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from evals_app.models import EvalSet, EvalSetVersion, KnownMetric
from sessions_app import scopes
from sessions_app.store import change_notification


def mirror(
    app_name: str,
    evalset_id: str,
    columns: Mapping[str, Any],
    content: Mapping[str, Any] | None,
    origin: str = "disk",
) -> EvalSet:
    """Store the state of an evalset file. `content` is None for an invalid file, whose last valid version stays.

    `origin` (disk, page, api or session) is stored with a new version.
    """
    with transaction.atomic():
        evalset, _ = EvalSet.objects.update_or_create(
            app_name=app_name,
            evalset_id=evalset_id,
            defaults={**columns, "gone": False, "seen_at": time.time()},
        )
        if content is not None:
            EvalSetVersion.objects.get_or_create(
                evalset=evalset,
                digest=columns["digest"],
                defaults={"content": scopes.dumps(content), "created_at": time.time(), "origin": origin},
            )
        change_notification.notify_after_commit()
    return evalset


def mark_gone(pks: Iterable[int]) -> None:
    """Mark evalsets whose file no longer exists. Their runs stay."""
    with transaction.atomic():
        EvalSet.objects.filter(pk__in=list(pks), gone=False).update(gone=True)
        change_notification.notify_after_commit()


def store_metrics(metrics: Iterable[Mapping[str, Any]], adk_version: str) -> None:
    """Store the metrics that a runtime described, if they have changed."""
    stored = dict(KnownMetric.objects.values_list("name", "data"))
    news = {metric["name"]: scopes.dumps(metric) for metric in metrics}
    with transaction.atomic():
        for name, data in news.items():
            if stored.get(name) != data:
                KnownMetric.objects.update_or_create(
                    name=name, defaults={"data": data, "adk_version": adk_version, "seen_at": time.time()}
                )
