"""The form of variants: what a person typed for each variant, and the variants that it describes. Pure.

A field has the original's value until it is changed; only changed fields become part of a variant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from django.utils.datastructures import MultiValueDict

from evals_app.files.plain_yaml import dump_yaml, load_yaml
from evals_app.variants.model_variants import AgentModel, make_model_variants
from evals_app.variants.original_agents import CONFIG, MODEL, OriginalAgent, OriginalField, OriginalTool
from evals_app.variants.variant import MAX_VARIANTS, Variant, require_distinct_variants, require_few_variants
from evals_app.variants.variant_files import parse_content
from sessions_app.store.errors import BadInput

OTHER = "other"
"""Input for fields of an agent that the form has no input for, as YAML."""

OFFERED = "offered"
"""Start of the names of checkboxes of tools: a tool whose checkbox is not ticked is removed."""

MAX_YAML_NODES = 10_000
"""Keys and values of an input in YAML."""


@dataclass(frozen=True)
class VariantDraft:
    """The inputs of a variant.

    Attributes:
        texts: `AGENT.FIELD`, `AGENT.tool.TOOL` (its description) or `AGENT.other` → text that differs from the
            original's.
        removed: `AGENT.offered.TOOL` of tools that are removed.
    """

    name: str = ""
    note: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class VariantInput:
    """An input of a variant at its position. `is_removed`: whether the variant removes the tool."""

    position: int
    input_name: str
    value: str
    is_changed: bool
    offered_name: str = ""
    is_removed: bool = False


@dataclass(frozen=True)
class AgentRows:
    """An agent of the form: its fields and tools, each with the inputs of the variants."""

    original: OriginalAgent
    fields: Sequence[tuple[OriginalField, Sequence[VariantInput]]]
    tools: Sequence[tuple[OriginalTool, Sequence[VariantInput]]]
    others: Sequence[VariantInput]

    @property
    def has_others(self) -> bool:
        """Tell whether a variant changes fields that have no input of their own."""
        return any(cell.value for cell in self.others)

    @property
    def is_changed(self) -> bool:
        """Tell whether a variant changes the agent."""
        rows = (*self.fields, *self.tools, (None, self.others))
        return any(cell.is_changed or cell.is_removed for _, cells in rows for cell in cells)


@dataclass(frozen=True)
class VariantForm:
    """The drafts of a form beside the original agents."""

    agents: Sequence[OriginalAgent]
    drafts: Sequence[VariantDraft]

    @property
    def rows(self) -> list[AgentRows]:
        """The agents with the inputs of each draft."""
        return [
            AgentRows(
                agent,
                [
                    (original, self._cells(f"{agent.name}.{original.name}", original.value))
                    for original in agent.fields
                ],
                [
                    (
                        tool,
                        self._cells(
                            f"{agent.name}.tool.{tool.name}",
                            tool.description,
                            f"{agent.name}.{OFFERED}.{tool.name}",
                        ),
                    )
                    for tool in agent.tools
                ],
                self._cells(f"{agent.name}.{OTHER}", ""),
            )
            for agent in self.agents
        ]

    @property
    def can_add(self) -> bool:
        """Tell whether another variant may be added."""
        return len(self.drafts) < MAX_VARIANTS

    def _cells(self, key: str, value: str, offered: str = "") -> list[VariantInput]:
        return [
            VariantInput(
                position,
                f"v{position}-{key}",
                draft.texts.get(key, value),
                key in draft.texts,
                f"v{position}-{offered}" if offered else "",
                offered in draft.removed,
            )
            for position, draft in enumerate(self.drafts)
        ]


def add_draft(form: VariantForm) -> VariantForm:
    """Return the form with another variant, which changes nothing yet."""
    return (
        replace(form, drafts=[*form.drafts, VariantDraft(_new_name(form.drafts))]) if form.can_add else form
    )


def add_models(form: VariantForm, models: Sequence[str], scope: str) -> VariantForm:
    """Return the form with a variant for each model. Variants that change nothing yet are replaced.

    Args:
        scope: which agents get the model, a key of `SCOPES`.

    Raises:
        BadInput: no model is given, there are too many, or no agent has a model.
        BadFile: a name cannot be that of a variant.
    """
    if not models:
        raise BadInput("No model is given.", hint="Write the name of a model on each line.")
    drafts = [draft for draft in form.drafts if draft.texts or draft.removed]
    require_few_variants(len(drafts) + len(models))
    own_models = [AgentModel(agent.name, _read_own_model(agent)) for agent in form.agents]
    variants = make_model_variants(models, own_models, scope)
    return replace(form, drafts=[*drafts, *(draft_variant(variant, form.agents) for variant in variants)])


def _read_own_model(agent: OriginalAgent) -> str:
    """Return the model of an agent that does not take the one of its parent; empty if it has none."""
    models = (original for original in agent.fields if original.name == MODEL and not original.is_inherited)
    return next((original.value for original in models), "")


def remove_draft(form: VariantForm, position: int) -> VariantForm:
    """Return the form without the variant at a position. The last one stays."""
    drafts = [draft for index, draft in enumerate(form.drafts) if index != position]
    return replace(form, drafts=drafts or form.drafts)


def _new_name(drafts: Sequence[VariantDraft]) -> str:
    names = {draft.name for draft in drafts}
    numbers = range(len(drafts) + 1, 2 * MAX_VARIANTS + 1)
    return next(name for number in numbers if (name := f"variant {number}") not in names)


def read_form(data: MultiValueDict[str, str], agents: Sequence[OriginalAgent]) -> VariantForm:
    """Return the form with these inputs; with one variant if it names no number of them."""
    text = data.get("variants", "")
    count = min(int(text), MAX_VARIANTS) if text.isdecimal() and len(text) < 3 else 0
    form = VariantForm(agents, [_read_draft(data, position, agents) for position in range(count)])
    return form if count else add_draft(form)


def _read_draft(
    data: MultiValueDict[str, str], position: int, agents: Sequence[OriginalAgent]
) -> VariantDraft:
    prefix = f"v{position}-"
    texts = {}
    for key, original, is_yaml in _iter_originals(agents):
        value = _normalize(data.get(f"{prefix}{key}", original))
        if not _is_same(value, original, is_yaml=is_yaml):
            texts[key] = value
    removed = {
        key
        for agent in agents
        for tool in agent.tools
        if f"{prefix}{(key := f'{agent.name}.{OFFERED}.{tool.name}')}" not in data and not tool.fixed_reason
    }
    name, note = data.get(f"{prefix}name", "").strip(), _normalize(data.get(f"{prefix}note", ""))
    return VariantDraft(name, note, texts, frozenset(removed))


def _iter_originals(agents: Sequence[OriginalAgent]) -> Iterator[tuple[str, str, bool]]:
    """Yield the key and the original's text of each input that can be changed, and whether the text is YAML."""
    for agent in agents:
        if agent.fixed_reason:
            continue
        for original in agent.fields:
            if not original.fixed_reason:
                yield f"{agent.name}.{original.name}", original.value, original.name == CONFIG
        for tool in agent.tools:
            if not tool.fixed_reason:
                yield f"{agent.name}.tool.{tool.name}", tool.description, False
        yield f"{agent.name}.{OTHER}", "", True


def _normalize(text: str) -> str:
    """Return a text with the line ends of the original: browsers send CR LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_same(value: str, original: str, *, is_yaml: bool) -> bool:
    if is_yaml:
        return value.strip() == original.strip()
    return value == _normalize(original).replace("\0", "\ufffd")  # browsers cannot send U+0000


def draft_variant(variant: Variant, agents: Sequence[OriginalAgent]) -> VariantDraft:
    """Return the inputs of a variant.

    Raises:
        BadInput: it changes an agent that the form does not have.
    """
    by_name = {agent.name: agent for agent in agents if not agent.fixed_reason}
    texts: dict[str, str] = {}
    removed: set[str] = set()
    for name, changes in variant.patch.items():
        if name not in by_name:
            raise BadInput(
                f"The form cannot show variant {variant.name!r}: it changes the agent {name!r}, which it lacks.",
                hint="Download its file, and run it by run_evals --variant.",
            )
        agent_texts, agent_removed = _draft_agent(by_name[name], changes)
        texts |= agent_texts
        removed |= agent_removed
    return VariantDraft(variant.name, variant.note, texts, frozenset(removed))


def _draft_agent(agent: OriginalAgent, changes: Mapping[str, Any]) -> tuple[dict[str, str], set[str]]:
    """Return the texts and removed tools of the changes of an agent."""
    open_fields = {original.name for original in agent.fields if not original.fixed_reason}
    tools = {tool.name for tool in agent.tools if not tool.fixed_reason}
    texts: dict[str, str] = {}
    others: dict[str, Any] = {}
    removed: set[str] = set()
    for name, value in changes.items():
        if name == "tools" and {*value.get("remove", ()), *value.get("describe", {})} <= tools:
            removed = {f"{agent.name}.{OFFERED}.{tool}" for tool in value.get("remove", ())}
            texts |= {f"{agent.name}.tool.{tool}": text for tool, text in value.get("describe", {}).items()}
        elif name == CONFIG and name in open_fields and isinstance(value, dict):
            texts[f"{agent.name}.{name}"] = dump_yaml(value) if value else ""
        elif name in open_fields and isinstance(value, str):
            texts[f"{agent.name}.{name}"] = value
        else:
            others[name] = value
    if others:
        texts[f"{agent.name}.{OTHER}"] = dump_yaml(others)
    return texts, removed


def parse_form(form: VariantForm) -> list[Variant]:
    """Return the variants of a form.

    Raises:
        BadInput: a variant changes nothing, an input is invalid, or two variants are alike.
        BadFile: a name or a text breaks a rule of variant files.
    """
    variants = []
    for number, draft in enumerate(form.drafts, start=1):
        subject = f"Variant {draft.name or number!r}"
        patch = {
            agent.name: changes
            for agent in form.agents
            if not agent.fixed_reason and (changes := _read_changes(agent, draft, subject))
        }
        if not patch:
            raise BadInput(
                f"{subject} changes nothing.", hint="Change a field of the agent, or remove the variant."
            )
        content = {"name": draft.name, "note": draft.note, "agents": patch}
        variants.append(parse_content(content, f"variant {number}"))
    require_distinct_variants(variants)
    return variants


def _read_changes(agent: OriginalAgent, draft: VariantDraft, subject: str) -> dict[str, Any]:
    """Return what a draft changes of an agent, as in a variant file.

    Raises:
        BadInput: an input is no YAML of the fields of an object, or a field has two values.
    """
    changes: dict[str, Any] = {}
    for original in agent.fields:
        key = f"{agent.name}.{original.name}"
        if key in draft.texts:
            text = draft.texts[key]
            is_config = original.name == CONFIG
            label = f"{subject}, agent {agent.name!r}: the generation config"
            changes[original.name] = _parse_yaml(text, label) if is_config else text
    if tools := _read_tool_changes(agent, draft):
        changes["tools"] = tools
    others = _parse_yaml(
        draft.texts.get(f"{agent.name}.{OTHER}", ""), f"{subject}, agent {agent.name!r}: other fields"
    )
    if repeated := sorted(map(str, changes.keys() & others.keys())):
        raise BadInput(
            f"{subject}, agent {agent.name!r}: {repeated[0]} is set both in its own field and under Other fields.",
            hint="Remove one of them.",
        )
    return changes | others


def _read_tool_changes(agent: OriginalAgent, draft: VariantDraft) -> dict[str, Any]:
    """Return the removed tools, and the new descriptions of tools that are still offered."""
    names = [tool.name for tool in agent.tools]
    removed = [name for name in names if f"{agent.name}.{OFFERED}.{name}" in draft.removed]
    described = {
        name: draft.texts[key]
        for name in names
        if (key := f"{agent.name}.tool.{name}") in draft.texts and name not in removed
    }
    return {**({"remove": removed} if removed else {}), **({"describe": described} if described else {})}


def _parse_yaml(text: str, subject: str) -> dict[str, Any]:
    """Return the object of an input in YAML; empty for an empty input."""
    hint = "Write one field a line, such as temperature: 0.2."
    try:
        value, repeated = load_yaml(text, max_nodes=MAX_YAML_NODES)
        json.dumps(value)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = str(getattr(error, "problem", None) or error)
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise BadInput(f"{subject}: is not valid YAML: {line}{reason}.", hint=hint) from error
    if repeated:
        raise BadInput(f"{subject}: {repeated[0]} occurs twice.", hint="Remove one of them.")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadInput(f"{subject}: must be a YAML object, one `field: value` a line.", hint=hint)
    return value
