"""Operations on the judgements of people on events."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest
from ninja import Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from sessions_app import roles
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, Older, PageSize
from sessions_app.http import person_name
from sessions_app.lookup import find_session
from sessions_app.sessions import judgements
from sessions_app.store.database import pagination, units_of_work
from sessions_app.store.models import NOT_WITHDRAWN, EventJudgement

router = Router(tags=["sessions"])


class NewJudgement(Schema):
    """A judgement, which replaces that of the event."""

    model_config = ConfigDict(extra="forbid")

    verdict: str = Field(description="good or bad.")
    note: str = Field(default="", description=f"At most {judgements.NOTE_LENGTH:,} characters.")


class JudgementOut(Schema):
    """Judgement of a person on an event."""

    seq: int = Field(description="Number of the event.")
    verdict: str = Field(description="good or bad.")
    note: str
    person: str = Field(description="Name of the person who judged; empty without users.")
    judged_at: float


class JudgementPage(Schema):
    """Judgements of a session, newest first."""

    items: list[JudgementOut] = Field(validation_alias="rows")
    next: str


@router.get("/sessions/{int:session}/judgements", response={200: JudgementPage, **REFUSALS})
async def list_judgements(
    request: HttpRequest, session: int, limit: PageSize = 50, before: Older = ""
) -> JudgementPage:
    """List the judgements of a session's events, newest first."""
    return await units_of_work.read(_judgement_page, session, limit, before)


@router.put("/sessions/{int:session}/events/{int:seq}/judgement", response={200: JudgementOut, **REFUSALS})
@needs(put=roles.LABEL)
async def judge_event(request: HttpRequest, session: int, seq: int, body: NewJudgement) -> EventJudgement:
    """Judge an event as good or bad. The latest judgement of an event replaces the one before."""
    act = partial(judgements.judge, session, seq, body.verdict, body.note, person=person_name(request))
    return await units_of_work.write(act)


@router.delete("/sessions/{int:session}/events/{int:seq}/judgement", response={204: None, **REFUSALS})
@needs(delete=roles.LABEL)
async def withdraw_judgement(request: HttpRequest, session: int, seq: int) -> Status[None]:
    """Withdraw the judgement of an event; 404 if it has none."""
    await units_of_work.write(partial(judgements.withdraw, session, seq, person=person_name(request)))
    return Status(204, None)


def _judgement_page(session_pk: int, limit: int, before: str) -> JudgementPage:
    rows = EventJudgement.objects.filter(NOT_WITHDRAWN, session=find_session(session_pk))
    return JudgementPage.model_validate(
        pagination.paginate(rows, pagination.Order("-judged_at"), before, size=limit)
    )
