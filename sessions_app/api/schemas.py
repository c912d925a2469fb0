"""Schemas of sessions, events, runs and errors.

Times are seconds since the epoch; `key` is a session's surrogate key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ninja import P, QueryEx, Schema
from pydantic import ConfigDict, Field

from sessions_app.paths import session_url
from sessions_app.prices.costs import Cost, Spending
from sessions_app.sessions import listing, storage_location
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.sessions import lineage

PageSize = QueryEx[int, P(ge=1, le=200, description="Maximum number of rows.")]
Older = QueryEx[str, P(description="`next` of the page before.")]


class Problem(Schema):
    """Body of an error response."""

    detail: Any = Field(description="Error message, or the list of errors in the body.")
    code: str = Field(description="Machine-readable error code.")
    hint: str = Field(description="How to fix or avoid the error.")


class RowSchema(Schema):
    """A schema whose fields are attributes of an object with the same names."""

    @classmethod
    def from_row(cls, row: object, **others: Any) -> Self:
        """Return the schema of an object, with `others` as the values of the remaining fields."""
        names = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(row, name) for name in names}, **others)


REFUSALS = {400: Problem, 404: Problem, 409: Problem, 422: Problem}
"""Error responses of operations that change sessions."""


class CostOut(RowSchema):
    """Cost of model calls by the price list (`prices.toml`)."""

    amount: float | None = Field(description="Cost of the calls that have a price; null: none has one.")
    currency: str
    calls: int
    unpriced: int = Field(
        description="Calls without a price. If there are some, the cost is at least `amount`."
    )

    @classmethod
    def of(cls, cost: Cost | None) -> Self | None:
        """Return the schema of a cost."""
        return cls.from_row(cost, amount=None if cost.is_unknown else cost.amount) if cost else None


COST = Field(description="Cost of the tokens; null: there are none, or no price list.")


class SessionOut(RowSchema):
    """A session without state and events."""

    key: int = Field(
        description="Primary key; identifies the session in this API, since ids may hold any character."
    )
    app: str
    user: str
    id: str
    realm: str = Field(description="Empty, or the isolated namespace of an eval attempt or a fork.")
    title: str
    title_person: str = Field(description="Name of the person who set the title; empty without users.")
    tags: list[str]
    tag_persons: dict[str, str] = Field(description="Tag → name of the person who added it, if known.")
    pinned: bool
    pinned_person: str = Field(description="Name of the person who pinned it; empty without users.")
    first_text: str
    last_text: str
    created_at: float
    updated_at: float
    events: int
    errors: int
    problems: int = Field(description="Errors and warnings among its problems.")
    tokens: int
    cost: CostOut | None = COST
    url: str = Field(description="The session's page.")
    stored_in: str = Field(description="Type of the store, and its file or server.")
    survives_restart: bool | None = Field(
        description="False: the session is lost when the server ends. Null: a remote server stores it."
    )
    behind: str = Field(
        description="Why the copy is out of date with ADK's service; empty: it is up to date."
    )
    imported_from: str = Field(
        description="Path or URL of the store it was imported from; empty: not imported."
    )

    @classmethod
    def of(cls, row: AgentSession) -> Self:
        """Return the schema of a session."""
        place = storage_location.location_of(row)
        return cls.from_row(
            row,
            key=row.pk,
            app=row.app_name,
            user=row.user_id,
            id=row.session_id,
            tags=listing.tag_names(row),
            tag_persons=listing.tag_persons(row),
            pinned=row.pinned_at is not None,
            events=row.last_seq,
            errors=row.error_count,
            problems=row.problem_count,
            tokens=row.total_tokens,
            cost=CostOut.of(listing.cost_of(row)),
            url=session_url(row),
            stored_in=str(place),
            survives_restart=place.survives_restart,
            behind=place.behind,
            imported_from=lineage.imported_from(row),
        )


class SessionPage(Schema):
    """A page of sessions, newest update first."""

    sessions: list[SessionOut]
    next: str | None = Field(description="Pass it as `before` for the next page; null: this was the last.")


class EventOut(Schema):
    """An event and its sequence number in the session."""

    seq: int
    kind: str
    event: dict[str, Any] = Field(description="The event as ADK's REST sends it.")


class EventPage(Schema):
    """Events in order."""

    events: list[EventOut]
    cursor: int = Field(description="Pass it as `after` for the next page, now or later.")
    more: bool


class RunOut(RowSchema):
    """A run: a message to an agent and its outcome."""

    id: str
    status: str = Field(
        description="queued, running, waiting (for input), done, failed, cancelled or crashed."
    )
    session: int = Field(description="Key of the session.")
    app: str
    user: str
    session_id: str
    source: str
    person: str = Field(description="Name of the person who started it; empty without users.")
    invocation_id: str
    created_at: float
    started_at: float | None
    finished_at: float | None
    first_seq: int | None = Field(description="Last seq of the session when the run started.")
    last_seq: int | None = Field(description="Last seq of the session when the run ended.")
    error_type: str
    error: str
    lost_toolsets: list[str] = Field(
        description="Toolsets that failed to load: the model ran without their tools."
    )
    tokens: int | None = Field(description="Tokens of its events; null: it has not ended, or is very long.")
    cost: CostOut | None = COST

    @classmethod
    def of(cls, row: Run, lost_toolsets: Sequence[str] = (), spending: Spending | None = None) -> Self:
        """Return the schema of a run, which must be loaded with its session."""
        return cls.from_row(
            row,
            session=row.session.pk,
            app=row.session.app_name,
            user=row.session.user_id,
            session_id=row.session.session_id,
            lost_toolsets=list(lost_toolsets),
            tokens=spending and spending.tokens,
            cost=CostOut.of(spending and spending.cost),
        )


class Runs(Schema):
    """A page of runs, newest first."""

    runs: list[RunOut]
    next: str | None = Field(description="Pass it as `before` for the next page; null: this was the last.")


class NewRun(Schema):
    """A message for an agent: text or ADK's Content. Without a message, `invocation_id` is resumed."""

    model_config = ConfigDict(extra="forbid")

    session: int = Field(description="Key of the session.")
    message: str | dict[str, Any] | None = None
    streaming: bool = False
    state_delta: dict[str, Any] | None = None
    invocation_id: str | None = None
    function_call_event_id: str | None = None
    run_config: dict[str, Any] = Field(default_factory=dict, description="Fields of ADK's RunConfig.")
    custom_metadata: dict[str, Any] | None = None

    def request(self) -> dict[str, Any]:
        """Return the value of `Run.request`."""
        options = self.dict(exclude={"session", "message"})
        if isinstance(self.message, str):
            return {"new_message": {"role": "user", "parts": [{"text": self.message}]}, **options}
        return {"new_message": self.message, **options}
