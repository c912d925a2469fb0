"""Schemas of sessions, events, runs and errors.

Times are seconds since the epoch; `key` is a session's surrogate key.

Schemas of responses read the attributes of rows and dataclasses: `validation_alias` names the attribute, if it has
another name (`row.text`: that of an attribute), and `resolve_x` computes the field `x`. A response that is returned as
a row is read outside of a unit of work, so that its attributes must need no query.
"""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Annotated, Any

from ninja import P, QueryEx, Schema
from pydantic import BeforeValidator, ConfigDict, Field

from sessions_app.paths import session_url
from sessions_app.prices.costs import Cost
from sessions_app.sessions import listing, storage_location
from sessions_app.store.sessions import lineage

PageSize = QueryEx[int, P(ge=1, le=200, description="Maximum number of rows.")]
Older = QueryEx[str, P(description="`next` of the page before.")]


class ErrorBody(Schema):
    """Body of an error response."""

    detail: Any = Field(description="Error message, or the list of errors in the body.")
    code: str = Field(description="Machine-readable error code.")
    hint: str = Field(description="How to fix or avoid the error.")


def decode_json(text: str | None) -> Any:
    """Return the value of a stored JSON text; None without a text."""
    return None if text is None else json.loads(text)


DECODED = BeforeValidator(decode_json)
IS_SET = BeforeValidator(lambda value: value is not None)
NULL_IF_EMPTY = BeforeValidator(lambda value: value or None)
ROW_PK = BeforeValidator(attrgetter("pk"))
"""Conversions of attributes: to the value of a JSON text, to whether there is a value, to null, to a row's key."""


class ExtendedRow:
    """An object with further attributes, from which a schema is validated."""

    def __init__(self, row: object, **others: Any) -> None:
        self._row = row
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)


REFUSALS = {400: ErrorBody, 404: ErrorBody, 409: ErrorBody, 422: ErrorBody}
"""Error responses that nearly every route may give."""


class CostOut(Schema):
    """Cost of model calls by the price file (`prices.toml`) and the list prices that ship with DevUI."""

    amount: float | None = Field(description="Cost of the calls that have a price; null: none has one.")
    currency: str
    calls: int
    unpriced: int = Field(
        description="Calls without a price. If there are some, the cost is at least `amount`."
    )
    list_date: str = Field(description="Day of the list prices among the prices; empty: all are of the file.")

    @staticmethod
    def resolve_amount(cost: Cost) -> float | None:
        """Return the amount; None if no call has a price."""
        return None if cost.is_unknown else cost.amount


COST = Field(description="Cost of the tokens; null: there are none, or none has a price.")


class SessionOut(Schema):
    """A session without state and events."""

    key: int = Field(
        validation_alias="pk",
        description="Primary key; identifies the session in this API, since ids may hold any character.",
    )
    app: str = Field(validation_alias="app_name")
    user: str = Field(validation_alias="user_id")
    id: str = Field(validation_alias="session_id")
    realm: str = Field(description="Empty, or the isolated namespace of an eval attempt or a fork.")
    title: str
    title_person: str = Field(description="Name of the person who set the title; empty without users.")
    tags: list[str]
    tag_persons: dict[str, str] = Field(description="Tag → name of the person who added it, if known.")
    pinned: Annotated[bool, IS_SET] = Field(validation_alias="pinned_at")
    pinned_person: str = Field(description="Name of the person who pinned it; empty without users.")
    first_text: str
    last_text: str
    created_at: float
    updated_at: float
    events: int = Field(validation_alias="last_seq")
    errors: int = Field(validation_alias="error_count")
    problems: int = Field(
        validation_alias="problem_count", description="Errors and warnings among its problems."
    )
    tokens: int = Field(validation_alias="total_tokens")
    cost: CostOut | None = COST
    url: str = Field(description="The session's page.")
    stored_in: Annotated[str, BeforeValidator(str)] = Field(
        description="Type of the store, and its file or server."
    )
    survives_restart: bool | None = Field(
        description="False: the session is lost when the server ends. Null: a remote server stores it."
    )
    behind: str = Field(
        description="Why the copy is out of date with ADK's service; empty: it is up to date."
    )
    imported_from: str = Field(
        description="Path or URL of the store it was imported from; empty: not imported."
    )

    resolve_tags = staticmethod(listing.tag_names)
    resolve_tag_persons = staticmethod(listing.tag_persons)
    resolve_cost = staticmethod(listing.session_cost)
    resolve_url = staticmethod(session_url)
    resolve_stored_in = staticmethod(storage_location.find_location)
    resolve_survives_restart = staticmethod(lambda row: storage_location.find_location(row).survives_restart)
    resolve_behind = staticmethod(lambda row: storage_location.find_location(row).behind)
    resolve_imported_from = staticmethod(lineage.imported_from)


class SessionPage(Schema):
    """A page of sessions, newest update first."""

    sessions: list[SessionOut] = Field(validation_alias="rows")
    next: Annotated[str | None, NULL_IF_EMPTY] = Field(
        description="Pass it as `before` for the next page; null: this was the last.",
    )


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


class RunOut(Schema):
    """A run: a message to an agent and its outcome."""

    id: str
    status: str = Field(
        description="queued, running, waiting (for input), done, failed, cancelled or crashed."
    )
    session: Annotated[int, ROW_PK] = Field(description="Key of the session.")
    app: str = Field(validation_alias="session.app_name")
    user: str = Field(validation_alias="session.user_id")
    session_id: str = Field(validation_alias="session.session_id")
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
