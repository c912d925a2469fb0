"""DevUI's API for trends."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from pydantic import Field

from sessions_app.api.routing import Router
from sessions_app.api.schemas import ErrorBody
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.trends import code_changes
from sessions_app.trends.measures import MEASURES, find_grouping
from sessions_app.trends.trend_queries import DAYS, DEFAULT_DAYS, Trend, TrendFilter, read_trend

router = Router(tags=["trends"])

MeasureName = Literal[
    "invocation-time",
    "invocations",
    "model-latency",
    "first-token",
    "tool-latency",
    "tokens",
    "cost",
    "failed-invocations",
    "failed-models",
    "failed-tools",
    "problems",
]
GroupingName = Literal["app", "agent", "model", "tool", "problem", "user", "code"]


class FiguresOut(Schema):
    """Figures of invocations, calls or problems. Seconds are at most 5 % off."""

    count: int
    errors: int
    error_rate: float
    latency: float | None = Field(description="Median in seconds.")
    latency_p95: float | None
    latency_p99: float | None
    first_token: float | None = Field(description="Median of the seconds until the first token.")
    first_token_p95: float | None
    input_tokens: int
    cached_tokens: int = Field(description="Among the input.")
    output_tokens: int = Field(description="With thoughts.")
    cost: float | None = Field(description="Null: unknown.")


class PointOut(Schema):
    """Figures of an hour or a day."""

    start: int = Field(description="Seconds since the epoch.")
    figures: FiguresOut
    sessions: str = Field(description="Search for its sessions: `GET /sessions?q=`.")


class GroupOut(Schema):
    """A group with its figures over all the time, and by hour or day."""

    name: str = Field(description="Empty: unknown.")
    label: str
    figures: FiguresOut
    sessions: str = Field(description="Search for its sessions: `GET /sessions?q=`.")
    points: list[PointOut]


class TrendOut(Schema):
    """A measure over time."""

    measure: str = Field(validation_alias="filter.measure.slug")
    by: str = Field(validation_alias="filter.grouping.slug")
    start: int = Field(validation_alias="starts.start", description="Seconds since the epoch.")
    step: int = Field(
        validation_alias="starts.step", description="Seconds of a point: an hour or a day (UTC)."
    )
    currency: str
    groups: list[GroupOut] = Field(description="The largest groups; of code versions the newest.")
    more: bool = Field(validation_alias="has_more", description="There are groups that are not listed.")

    @staticmethod
    def resolve_groups(trend: Trend) -> list[dict[str, Any]]:
        """Return the groups with the searches for their sessions."""
        query = trend.filter.session_query
        return [
            {
                "name": group.name,
                "label": group.label,
                "figures": group.figures,
                "sessions": query(group.name),
                "points": [
                    {"start": start, "figures": figures, "sessions": query(group.name, start)}
                    for start, figures in group.points.items()
                ],
            }
            for group in trend.groups
        ]


class IntervalOut(Schema):
    """A 95 % confidence interval."""

    low: float
    high: float


class DifferenceOut(Schema):
    """A difference with its interval."""

    value: float
    interval: IntervalOut


class ComparisonOut(Schema):
    """A value per invocation: latency (median, seconds), errors (share), tokens or cost."""

    name: str
    value: float | None = Field(description="Null: unknown.")
    change: DifferenceOut | None = Field(
        description="From the version before. Null: unknown, or too few invocations."
    )


class CodeVersionOut(Schema):
    """A code version, compared with the one before. The comparison is observational."""

    version: str
    label: str
    first_at: float
    invocations: int
    comparisons: list[ComparisonOut]


class CodeVersions(Schema):
    """The newest code versions of an app, the newest first."""

    versions: list[CodeVersionOut]


Days = QueryEx[int, P(description="Length: 2 (by hour), 7, 30 or 90.")]


@router.get("/trends", response={200: TrendOut, 400: ErrorBody, 422: ErrorBody})
async def get_trend(
    request: HttpRequest,
    measure: QueryEx[MeasureName, P(description="What is measured.")],
    by: QueryEx[GroupingName | None, P(description="Group by; by default as the page does.")] = None,
    app: QueryEx[str, P(description="Only this app.")] = "",
    days: Days = DEFAULT_DAYS,
) -> Trend:
    """Return a measure over time by group, from roll-ups of ended invocations."""
    chosen = MEASURES[measure]
    grouping = find_grouping(chosen, by or "", app)
    criteria = TrendFilter(chosen, grouping, _check_days(days), app)
    return await units_of_work.read(read_trend, criteria)


@router.get("/trends/code-versions", response={200: CodeVersions, 400: ErrorBody, 422: ErrorBody})
async def list_code_versions(request: HttpRequest, app: str, days: Days = DEFAULT_DAYS) -> dict[str, Any]:
    """Return the code versions of an app, each compared with the one before by a 95 % interval."""
    return {"versions": await units_of_work.read(code_changes.compare_versions, app, _check_days(days))}


def _check_days(days: int) -> int:
    if days not in DAYS:
        raise BadInput(f"A trend of {days} days is not available.", hint="Ask for 2, 7, 30 or 90 days.")
    return days
