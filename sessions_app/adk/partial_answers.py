"""Partial answers: streamed text that is stored when an invocation is cancelled."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event

from sessions_app.store import events


class StreamedAnswers:
    """Unfinished answers of an invocation's agents.

    ADK stores an answer only when it is complete. For a cancelled invocation ADK stores an abort event
    (`runners.Runner._synthesize_abort_events_if_needed`), to which the streamed text is added as metadata. Models do
    not see metadata, so later turns run without the partial answer, as in ADK.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str | None], list[tuple[bool, list[str]]]] = {}

    def note(self, event: Event) -> None:
        """Note a chunk or a complete event; add the streamed text to an abort event."""
        if event.partial:
            self._add_parts(event)
        elif event.error_code == events.ABORTED:
            self._attach_to(event)
        else:
            self._open.pop((event.author, event.branch), None)

    def _add_parts(self, event: Event) -> None:
        runs = self._open.setdefault((event.author, event.branch), [])
        for part in (event.content.parts if event.content else None) or []:
            if not part.text:
                continue
            is_thought = bool(part.thought)
            if not runs or runs[-1][0] is not is_thought:
                runs.append((is_thought, []))
            runs[-1][1].append(part.text)

    def _attach_to(self, event: Event) -> None:
        answers = [
            {"author": author, "branch": branch or "", "parts": [_joined_part(*run) for run in runs]}
            for (author, branch), runs in self._open.items()
            if runs
        ]
        self._open.clear()
        if answers:
            event.custom_metadata = {**(event.custom_metadata or {}), events.PARTIAL_ANSWER: answers}


def _joined_part(is_thought: bool, texts: list[str]) -> dict[str, Any]:
    return {"text": "".join(texts), **({"thought": True} if is_thought else {})}
