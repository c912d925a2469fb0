"""Answers that are being streamed: what of them is kept when their invocation is cancelled."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event

from sessions_app import events


class StreamedAnswers:
    """What the agents of an invocation have streamed of answers that are not whole yet.

    ADK stores an answer when it is whole. When an invocation is cancelled it stores one event that says so
    (`runners.Runner._synthesize_abort_events_if_needed`): that event is given what had been streamed, as metadata.
    Models are not given metadata, so later turns are what ADK makes of them: without the answer that was broken off.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str | None], list[tuple[bool, list[str]]]] = {}

    def take(self, event: Event) -> None:
        """Note a chunk or a whole event; give one that closes a cancelled invocation what was streamed."""
        if event.partial:
            self._add(event)
        elif event.error_code == events.ABORTED:
            self._give(event)
        else:
            self._open.pop((event.author, event.branch), None)

    def _add(self, event: Event) -> None:
        runs = self._open.setdefault((event.author, event.branch), [])
        for part in (event.content.parts if event.content else None) or []:
            if not part.text:
                continue
            is_thought = bool(part.thought)
            if not runs or runs[-1][0] is not is_thought:
                runs.append((is_thought, []))
            runs[-1][1].append(part.text)

    def _give(self, event: Event) -> None:
        answers = [
            {"author": author, "branch": branch or "", "parts": [_part(*run) for run in runs]}
            for (author, branch), runs in self._open.items()
            if runs
        ]
        self._open.clear()
        if answers:
            event.custom_metadata = {**(event.custom_metadata or {}), events.PARTIAL_ANSWER: answers}


def _part(is_thought: bool, texts: list[str]) -> dict[str, Any]:
    return {"text": "".join(texts), **({"thought": True} if is_thought else {})}
