"""Conversion of a session's events to the conversation of an eval case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.evaluation.evaluation_generator import EvaluationGenerator
from google.adk.events.event import Event


def build_conversation(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return ADK's invocations as JSON values in snake case, without those that have no message, such as edits."""
    turns = EvaluationGenerator.convert_events_to_eval_invocations(list(events))
    return [
        turn.model_dump(mode="json", exclude_none=True, exclude={"app_details"})
        for turn in turns
        if turn.user_content.parts
    ]
