"""REST API of eval cases: the draft of a case from a session, and a new case in an evalset."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import P, QueryEx, Schema
from ninja.responses import Status
from pydantic import ConfigDict, Field

from evals_app import roles
from evals_app.cases import adk_edits, session_cases
from evals_app.cases.session_cases import CaseOptions, SessionTurn
from evals_app.files import file_changes
from sessions_app.api.routing import Router, needs
from sessions_app.api.schemas import REFUSALS, ErrorBody
from sessions_app.http import note_object
from sessions_app.lookup import find_session
from sessions_app.store import realms
from sessions_app.store.database import units_of_work
from sessions_app.store.ids import StorableText
from sessions_app.store.models import AgentSession

router = Router(tags=["evals"])
"""Mounted by the package."""

Turn = QueryEx[str, P(description="Invocation of a turn; empty: the first or last one.")]


class NewCase(Schema):
    """A case to add to an evalset, in ADK's form (snake case)."""

    model_config = ConfigDict(extra="forbid")

    app: StorableText
    evalset: StorableText
    case: dict[str, Any] = Field(description="ADK's EvalCase: eval_id, conversation, session_input.")


class SavedCase(Schema):
    """A case that was added to an evalset."""

    app: str
    evalset: str
    case: str


@router.get("/cases/draft", response={200: dict[str, Any], 503: ErrorBody, **REFUSALS})
async def draft_case(request: HttpRequest, session: int, first: Turn = "", last: Turn = "") -> dict[str, Any]:
    """Return the case that a session, or a part of it, would become. Nothing is saved."""
    row, turns = await units_of_work.read(_read_turns, session, first, last)
    conversation = await session_cases.fetch_conversation(row)
    return await units_of_work.read(
        lambda: session_cases.build_case(
            row, turns, conversation, session_cases.suggest_id(row, turns), CaseOptions()
        )
    )


@router.post("/cases", response={201: SavedCase, **REFUSALS})
@needs(post=roles.EDIT_EVALSET.with_app_field("app"))
async def add_case(request: HttpRequest, body: NewCase) -> Status[SavedCase]:
    """Add a case to an evalset's file."""
    note_object(request, body.evalset, app=body.app)
    case = adk_edits.validate_case(body.case)
    await units_of_work.write(_add_case, body.app, body.evalset, case)
    return Status(201, SavedCase(app=body.app, evalset=body.evalset, case=case["eval_id"]))


def _read_turns(session: int, first: str, last: str) -> tuple[AgentSession, list[SessionTurn]]:
    row = find_session(session)
    realms.refuse_nested(row)
    return row, session_cases.select_turns(session_cases.find_turns(row), first, last)


def _add_case(app: str, evalset_id: str, case: dict[str, Any]) -> None:
    adk_edits.add_case(file_changes.current_evalset(app, evalset_id), case)
