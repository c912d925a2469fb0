"""Timeline items: the displayed data of each event. Pure: query results are passed in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sessions_app.agents.page.invocation_path import workflow_node
from sessions_app.console.questions import INPUT, SCHEMA_ARGUMENTS, Question
from sessions_app.presentation.message_html import remove_placeholders
from sessions_app.prices.costs import Cost
from sessions_app.problems.failures import BLOCK_REASONS, LENGTH_LIMIT
from sessions_app.state.key_changes import KeyChange
from sessions_app.store import events, scopes
from sessions_app.store.events.conditions import can_end_turn, is_error
from sessions_app.store.models import Event, EventJudgement, EventSummary, Run
from sessions_app.store.sessions.lineage import Forks
from sessions_app.store.traces.log_records import LogCount
from sessions_app.timeline.lanes import Lanes
from sessions_app.timeline.nested_runs import HeadsByCall

MAX_CHANGES = 8
"""State keys shown in a row; the inspector shows all."""

SHORT_TEXT = 60
"""Characters that fit into two lines of a narrow timeline."""

MAX_ARGS = 8
"""Arguments of a call shown in a row."""

MAX_PARTS = {"calls": 8, "results": 8, "media": 6, "others": 8}
"""Parts of a type shown in a row."""

MAX_ARTIFACTS = 12
"""Saved artifacts shown in a row."""

MAX_LINES = 100
"""Lines of a text shown in a row."""

SIGNALS = {
    "transferToAgent": "transfer to",
    "transferReason": "reason of the transfer",
    "escalate": "escalate",
    "skipSummarization": "result not summarized by the model",
    "endOfAgent": "end of agent",
    "agentState": "checkpoint",
    "rewindBeforeInvocationId": "rewind to before",
    "compaction": "compaction",
    "route": "route",
    "requestedAuthConfigs": "credentials requested",
    "requestedToolConfirmations": "confirmation requested",
    "renderUiWidgets": "UI widgets",
    "setModelResponse": "model response set",
}
"""Labels of the fields of `EventActions`; other fields are labeled by their name."""

SIGNAL_ICONS = {
    "transferToAgent": "transfer",
    "rewindBeforeInvocationId": "rewind",
    "agentState": "pin",
    "escalate": "up",
}

SILENT_KEYS = frozenset({"tokens", "model", "asked_model", "node", "flags", "delta", "person", "more"})
"""Keys of a summary that add no content to a row."""

QUIET_SIGNALS = frozenset({"agentState", "endOfAgent"})
"""Signals of checkpoints, which agents of a resumable app store between their steps."""

VALUED_SIGNALS = frozenset({"transferToAgent", "rewindBeforeInvocationId", "route"})


@dataclass(frozen=True, slots=True)
class Signal:
    """A control signal of an event; `value` is empty if the label is sufficient."""

    name: str
    label: str
    value: str

    @property
    def icon(self) -> str:
        """Name of the icon."""
        return SIGNAL_ICONS.get(self.name, "control")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive parts of an event of the same type.

    Attributes:
        key: their key in the event's summary.
        text: joined text of thoughts or texts.
        entries: other parts that fit into a row.
    """

    key: str
    text: str = ""
    entries: Sequence[Mapping[str, Any]] = ()

    @property
    def template(self) -> str:
        """Name of the template that renders it, one per type of part."""
        return f"devui/sessions/timeline/parts/{self.key}.html"


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call, as shown beside its answer in another row."""

    seq: int
    name: str
    args: dict[str, Any]


@dataclass(slots=True)
class TimelineItem:
    """An event as the timeline shows it.

    Attributes:
        event: the row; its `data` is not loaded.
        changes: the keys it wrote, `temp:` ghost keys last.
        elapsed: seconds since the previous event of the invocation, or since the call that it answers;
            without pauses, except in events of a person.
        rewound_by, compacted_by: seq of the event that rewound or summarized it; 0: none.
        questions: its open questions.
        run: the run that broke at this event.
        forks: sessions forked at this event.
        ends_fork: it is the last event that this fork copied.
        before: the previous event, of any invocation.
        gap: idle seconds before it, if they are marked here and not at its group; else 0.
        earlier_calls: the calls it answers that are in other rows.
        answered_in: seqs of the events after the window that answer its calls.
        covers: first and last seq that its compaction summarizes.
        takes_back: first and last seq that its rewind takes back.
        lanes: lanes of the agents, if the invocation has several.
        nested_runs: what agents did inside its calls.
        log: number of log records after it; None: there are none.
        cost: what its model call cost; None without tokens or without prices.
        person: name of the person who sent it or added it by hand; empty: unknown, or an agent's event.
        uploads: versions of the files that a message of the user names by placeholders; None: no shown event tells.
        judgement: what a person thinks of it; None: nobody has judged it.
        nested_page_url: for an event of a nested run the address of its session's page; empty on that page itself.
    """

    event: Event
    changes: list[KeyChange] = field(default_factory=list)
    elapsed: float | None = None
    rewound_by: int = 0
    compacted_by: int = 0
    questions: list[Question] = field(default_factory=list)
    run: Run | None = None
    forks: Forks | None = None
    ends_fork: bool = False
    before: Event | None = None
    gap: float = 0.0
    earlier_calls: list[EarlierCall] = field(default_factory=list)
    answered_in: list[int] = field(default_factory=list)
    covers: tuple[int, int] | None = None
    takes_back: tuple[int, int] | None = None
    lanes: Lanes | None = None
    nested_runs: HeadsByCall = field(default_factory=dict)
    log: LogCount | None = None
    cost: Cost | None = None
    person: str = ""
    uploads: dict[str, int | None] = field(default_factory=dict)
    judgement: EventJudgement | None = None
    nested_page_url: str = ""

    @property
    def address(self) -> str:
        """URL at which the whole event can be read."""
        return f"{self.nested_page_url}?seq={self.event.seq}"

    @property
    def summary(self) -> EventSummary:
        """The decoded summary."""
        return self.event.decoded_summary

    @property
    def after_transfer(self) -> bool:
        """Tell whether the previous event transfers to another agent."""
        return self.before is not None and "transferToAgent" in (self.before.decoded_summary["signals"] or ())

    @property
    def is_user(self) -> bool:
        """Tell whether the user is the author."""
        return self.event.author == "user"

    @property
    def is_final(self) -> bool:
        """Tell whether it is an agent's final response. (ADK also counts the user's messages.)"""
        ends = self.event.is_final and not self.is_cancelled
        return ends and can_end_turn(self.event) and not self.is_user

    @property
    def is_cancelled(self) -> bool:
        """Tell whether it ends a cancelled invocation."""
        return events.CANCELLED in self.summary.get("flags", ())

    @property
    def css(self) -> str:
        """CSS classes of the row."""
        lane = f"has-lanes lanes-{self.lanes.count} lane-{self.lanes.number}" if self.lanes else ""
        mark = "is-rewound" if self.rewound_by else "is-compacted" if self.compacted_by else ""
        alone = "is-delta" if self.is_delta_alone else ""
        length = "is-long" if self.is_long else ""
        error = "is-error" if self.is_error else ""
        block = "is-blocked" if self.is_blocked else ""
        return " ".join(
            filter(None, ("event", f"kind-{self.event.kind}", lane, mark, alone, length, error, block))
        )

    @property
    def is_error(self) -> bool:
        """Tell whether it is an error or contains the result of a failed tool."""
        return is_error(self.event) or any(result["failed"] for result in self.summary["results"] or ())

    @property
    def is_blocked(self) -> bool:
        """Tell whether its error is that the model ended the answer: for safety, or at its limit of tokens."""
        error = self.summary["error"] or {}
        return error.get("code") in {*BLOCK_REASONS, LENGTH_LIMIT}

    @property
    def is_long(self) -> bool:
        """Tell whether it has more than two lines to read and takes the full width of the timeline."""
        return len(self.summary.get("text", "")) > SHORT_TEXT or bool(self.summary["code"])

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The first calls, with their nested runs. Calls whose question shows their arguments come without them."""
        shown_places = {question.place for question in self.questions if question.shows_all_arguments}
        return [
            {
                **call,
                **first_args({} if index in shown_places else shown_args(call), call.get("more", 0)),
                "nested_runs": self.nested_runs.get(index, ()),
            }
            for index, call in enumerate(self.summary.get("calls", [])[: MAX_PARTS["calls"]])
        ]

    @property
    def text(self) -> str:
        """The lines of its text that fit into a row."""
        return "\n".join(self._text_lines[:MAX_LINES])

    @property
    def blocks(self) -> list[Block]:
        """The parts that fit into a row, in the model's order."""
        texts = {"thought": self.summary.get("thought", ""), "text": self.text}
        entries = {key: self.summary.get(key, [])[:max_parts] for key, max_parts in MAX_PARTS.items()}
        entries |= {"calls": self.calls, "code": self.summary.get("code", [])}
        order = self.summary["order"] or [(key, events.TEXT_LIMIT) for key in events.PART_ORDER]
        blocks: list[Block] = []
        sizes: dict[str, int] = defaultdict(int)
        for key, size in order:
            start, end = sizes[key], sizes[key] + size
            sizes[key] = end
            if key in texts:
                text = texts[key][start:end]
                blocks.append(Block(key, text=remove_placeholders(text) if self.is_user else text))
            else:
                blocks.append(Block(key, entries=entries[key][start:end]))
        return [block for block in blocks if block.text or block.entries]

    @property
    def goes_on(self) -> bool:
        """Tell whether the text is truncated."""
        return bool(self.summary["cut"]) or len(self._text_lines) > MAX_LINES

    @property
    def _text_lines(self) -> list[str]:
        lines: list[str] = self.summary.get("text", "").split("\n", MAX_LINES)
        return lines

    @property
    def more_parts(self) -> int:
        """Number of parts that do not fit into a row."""
        unshown = (len(self.summary.get(key, ())) - max_parts for key, max_parts in MAX_PARTS.items())
        return sum(max(0, count) for count in unshown) + self.left_out_parts

    @property
    def left_out_parts(self) -> int:
        """Number of parts that the summary leaves out."""
        return sum(self._left_out(key) for key in ("code", *MAX_PARTS))

    def _left_out(self, key: str) -> int:
        """Return how many entries of a list the summary leaves out."""
        count: int = (self.summary["more"] or {}).get(key, 0)
        return count

    @property
    def shown_artifacts(self) -> dict[str, int]:
        """The versions of the saved artifacts that fit into a row, by name."""
        return dict(islice(self.summary.get("artifacts", {}).items(), MAX_ARTIFACTS))

    @property
    def more_artifacts(self) -> int:
        """Number of saved artifacts that do not fit into a row."""
        return self._left_out("artifacts") + max(0, len(self.summary.get("artifacts", ())) - MAX_ARTIFACTS)

    @property
    def is_chunk(self) -> bool:
        """Tell whether it is a stored chunk of a streamed event."""
        return "partial" in self.summary.get("flags", ())

    @property
    def flags(self) -> list[str]:
        """Flags to show. `turnComplete` is the normal case and not shown."""
        shown_otherwise = {"turnComplete", events.CANCELLED}
        return [flag for flag in self.summary.get("flags", ()) if flag not in shown_otherwise]

    @property
    def signals(self) -> list[Signal]:
        """The control signals, in words."""
        return [
            Signal(name, SIGNALS.get(name, name), str(value) if name in VALUED_SIGNALS else "")
            for name, value in self.summary.get("signals", {}).items()
        ]

    @property
    def node(self) -> str:
        """Workflow node that wrote it, with its run from the second on; empty for an event of an agent."""
        name, run = workflow_node(self.event.author, self.summary["node"] or "")
        return f"{name}, run {run}" if run not in {"", "1"} else name

    @property
    def shown_changes(self) -> list[KeyChange]:
        """The changes that fit into a row."""
        return self.changes[:MAX_CHANGES]

    @property
    def more_changes(self) -> int:
        """Number of known changes that do not fit into a row."""
        written = len(self.summary.get("delta", [])) + self._left_out("delta")
        return max(len(self.changes), written) - len(self.shown_changes)

    @property
    def call_ids_json(self) -> str:
        """Ids of the calls it makes, as JSON for scripts; empty without calls."""
        return scopes.dumps(self.summary.call_ids) if self.summary.call_ids else ""

    @property
    def answer_ids_json(self) -> str:
        """Ids of the calls it answers, as JSON for scripts, without interim answers of people; empty: none."""
        results = self.summary.get("results", ())
        final = [result["id"] for result in results if not (self.is_user and result.get("interim"))]
        ids = [call_id for call_id in final if call_id]
        return scopes.dumps(ids) if ids else ""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to show: no content, no change, no signal."""
        return not (self.changes or self._says_something or self.is_cancelled)

    @property
    def is_delta_alone(self) -> bool:
        """Tell whether there is nothing to show but changes."""
        superseded = self.rewound_by or self.compacted_by
        marks = (self.flags, superseded, self.forks, self.ends_fork, self.questions, self.judgement)
        return bool(self.changes) and not (self._says_something or any(marks))

    @property
    def is_quiet(self) -> bool:
        """Tell whether the event has only changes of state and checkpoints."""
        marks = (self.flags, self.forks, self.ends_fork, self.questions, self.log, self.judgement)
        keys = self.summary.keys() - {*SILENT_KEYS, "signals"}
        is_marked = any(marks) or self.is_cancelled
        return not keys and not is_marked and QUIET_SIGNALS.issuperset(self.summary["signals"] or ())

    @property
    def fold_reason(self) -> str:
        """Reason for folding the event with its neighbors; empty if it is never folded."""
        if self.questions:
            return ""
        if self.rewound_by:
            return f"rewound-{self.rewound_by}"
        if self.compacted_by:
            return f"summarized-{self.compacted_by}"
        return "quiet" if self.is_quiet else ""

    @property
    def _says_something(self) -> bool:
        return bool(self.summary.keys() - SILENT_KEYS)


def shown_args(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments to show of a call. A request for input has the schema of its form among them."""
    if call["name"] != INPUT:
        return dict(call["args"])
    return {name: value for name, value in call["args"].items() if name not in SCHEMA_ARGUMENTS}


def first_args(args: Mapping[str, Any], left_out: int = 0) -> dict[str, Any]:
    """Return the first arguments of a call and the number of the others; `left_out` are missing from `args`."""
    return {"args": dict(islice(args.items(), MAX_ARGS)), "more": max(0, len(args) - MAX_ARGS) + left_out}
