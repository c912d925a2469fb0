"""Model calls with instructions, stored as the recorder stores them."""

from __future__ import annotations

import json

from sessions_app.store.models import AgentSession, ModelCall, ModelPiece
from sessions_app.store.traces.content_store import make_piece


def session(name: str, app: str = "counter") -> AgentSession:
    """Create a session."""
    return AgentSession.objects.create(
        app_name=app, user_id="u", session_id=name, created_at=1.0, updated_at=1.0
    )


def record(
    owner: AgentSession, text: str, at: float = 1.0, *, agent: str = "counter", tokens: int = 10
) -> ModelCall:
    """Store a model call with an instruction, as the recorder does."""
    piece = make_piece(text)
    ModelPiece.objects.get_or_create(session=owner, sha=piece.sha, defaults={"body": piece.text})
    request = {"model": "m", "contents": "0" * 32, "count": 1, "system_instruction": piece.sha, "config": {}}
    count = ModelCall.objects.count()
    return ModelCall.objects.create(
        session=owner,
        ref=str(count),
        invocation_id="i",
        number=count,
        agent=agent,
        model="m",
        started_at=at,
        request=json.dumps(request, separators=(",", ":")),
        prompt_tokens=tokens,
        total_tokens=tokens,
    )
