"""Replay policy of a run: the parts that come from a recording. Pure.

After a change of a prompt, replay tools with live models: it shows what the agent now does with the same data. After a
change of code around the models, replay the models: the same answers, other code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.store.errors import BadInput

LIVE, RECORDED, FAIL = "live", "recorded", "fail"

MODEL_CHOICES = ((LIVE, "live: call the models"), (RECORDED, "recorded: return the recorded answers"))
TOOL_CHOICES = (
    (LIVE, "live: call the tools"),
    (RECORDED, "recorded: return the recorded results"),
    (FAIL, "fail: end the attempt at the first call"),
)


@dataclass(frozen=True)
class ReplayPolicy:
    """Policy of a replayed run: the source of model responses and tool results, and the recording.

    Attributes:
        session: primary key of the replayed session; None: none.
        run: id of the run whose attempts are replayed, case by case; "": none.
    """

    models: str = LIVE
    tools: str = LIVE
    session: int | None = None
    run: str = ""

    @classmethod
    def of(cls, text: str) -> ReplayPolicy:
        """Read the policy of a run's row."""
        data: Mapping[str, Any] = json.loads(text or "{}")
        source = data.get("source") or {}
        return cls(
            data.get("models", LIVE), data.get("tools", LIVE), source.get("session"), source.get("run", "")
        )

    @classmethod
    def chosen(
        cls, models: str = "", tools: str = "", *, session: int | None = None, run: str = ""
    ) -> ReplayPolicy:
        """Return the policy of a request.

        Raises:
            BadInput: a choice is unknown, or replay is requested without a recording.
        """
        policy = cls(models or LIVE, tools or LIVE, session, run)
        for subject, value, choices in (
            ("Models", policy.models, MODEL_CHOICES),
            ("Tools", policy.tools, TOOL_CHOICES),
        ):
            names = [name for name, _ in choices]
            if value not in names:
                raise BadInput(f"{subject} cannot be {value!r}.", hint=f"Choices: {', '.join(names)}.")
        if policy.needs_recording and not (policy.run or policy.session):
            raise BadInput(
                "What is recorded can only be given again from a recording.",
                hint="Choose a run of this evalset, or replay a session from its page.",
            )
        return policy

    @property
    def needs_recording(self) -> bool:
        """Tell whether models or tools answer from a recording."""
        return RECORDED in (self.models, self.tools)

    @property
    def active(self) -> bool:
        """Tell whether anything is replayed, or compared with a recording."""
        return self.needs_recording or self.tools == FAIL or bool(self.run or self.session)

    @property
    def words(self) -> str:
        """The policy as text."""
        return f"models {self.models}, tools {self.tools}"

    def as_json(self) -> dict[str, Any]:
        """Return {models, tools, source}; {} when everything is live."""
        if not self.active:
            return {}
        source: dict[str, Any] = {}
        if self.session is not None:
            source["session"] = self.session
        if self.run:
            source["run"] = self.run
        return {"models": self.models, "tools": self.tools, "source": source}
