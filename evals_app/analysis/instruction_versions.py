"""Versions of instructions: what was sent, assigned to the declared instruction that it was filled from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from evals_app.analysis.statistics import Rate
from sessions_app.prices.costs import Cost
from sessions_app.traces.instruction_sources import (
    LITERAL_SOURCE,
    SEPARATOR,
    InstructionPiece,
    is_filled_from,
    join_templates,
)

INSTRUCTION, GLOBAL = "instruction", "global_instruction"

KEY_LENGTH = 12
"""Characters of the key of a version."""


@dataclass
class InstructionVersion:
    """An instruction that an agent has had.

    Attributes:
        field_name: the field of the agent that holds it.
        text: as it is declared, with placeholders; if no declaration is known, as it was sent.
        is_declared: the agent has it as it was last loaded.
        variants: names of the variants that have it.
        texts: hashes of the texts that were sent.
    """

    agent: str
    field_name: str
    text: str
    is_declared: bool = False
    variants: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    first_at: float = float("inf")
    last_at: float = float("-inf")
    calls: int = 0
    tokens: int = 0
    sessions: set[int] = field(default_factory=set)
    rate: Rate = field(default_factory=lambda: Rate(0, 0))
    cost: Cost | None = None

    @cached_property
    def key(self) -> str:
        """Hash of agent and text, which an address names."""
        return sha256(f"{self.agent}\0{self.text}".encode(errors="replace")).hexdigest()[:KEY_LENGTH]

    @property
    def patch(self) -> dict[str, dict[str, str]]:
        """The change of an agent to this instruction, as in a variant."""
        return {self.agent: {self.field_name: self.text}}


@dataclass(frozen=True)
class InstructionTemplate:
    """A known instruction of an agent: its field and text, and the pieces of a request that has it."""

    field_name: str
    text: str
    pieces: Sequence[InstructionPiece]
    variant: str = ""


def iter_templates(
    declared: Mapping[str, str], patches: Iterable[tuple[str, Mapping[str, Any]]]
) -> Iterator[InstructionTemplate]:
    """Yield the known instructions of an agent, the longest first: shorter ones with placeholders match its texts, too.

    The declared one comes before those of variants with the same text.
    """
    templates = [_make_template(declared)]
    for name, fields in patches:
        changed = {
            key: fields[key] for key in (LITERAL_SOURCE, INSTRUCTION) if isinstance(fields.get(key), str)
        }
        if changed:
            templates.append(_make_template({**declared, **changed}, name))
    yield from sorted(templates, key=lambda template: -len(template.text))


def _make_template(declared: Mapping[str, str], variant: str = "") -> InstructionTemplate:
    """Return the instruction of an agent with these fields.

    With a static instruction, ADK sends the other one in a message (`google/adk/flows/llm_flows`, ADK 2.13).
    """
    name = LITERAL_SOURCE if declared.get(LITERAL_SOURCE) else INSTRUCTION
    sent = {key: declared[key] for key in (GLOBAL, name) if declared.get(key)}
    return InstructionTemplate(name, declared.get(name, ""), join_templates(sent), variant)


def make_version(
    agent: str, sent_text: str, declared: Mapping[str, str], templates: Sequence[InstructionTemplate]
) -> InstructionVersion:
    """Return the version that a sent text belongs to."""
    text = _cut_identity(sent_text, agent)
    matching = [template for template in templates if is_filled_from(text, template.pieces)]
    if matching:
        first = matching[0]
        names = [
            template.variant for template in matching if template.text == first.text and template.variant
        ]
        is_declared = bool(first.text) and not first.variant
        variants = list(dict.fromkeys(names))
        return InstructionVersion(agent, first.field_name, first.text, is_declared, variants)
    if declared.get(GLOBAL):
        text = text.removeprefix(f"{declared[GLOBAL]}{SEPARATOR}")
    return InstructionVersion(agent, LITERAL_SOURCE if declared.get(LITERAL_SOURCE) else INSTRUCTION, text)


def _cut_identity(text: str, agent: str) -> str:
    """Return an instruction without what ADK appends, which begins with the name of the agent.

    See `google/adk/flows/llm_flows/prompt/_identity.py` (ADK 2.13).
    """
    own_text, _, _ = text.partition(f'You are an agent. Your internal name is "{agent}".')
    return own_text.removesuffix(SEPARATOR)
