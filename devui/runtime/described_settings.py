"""Settings, skills and schemas of agents' parts as plain JSON without credentials, and what ADK says of these parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from google.adk.models import FallbackModel
from google.adk.models.base_llm import BaseLlm
from google.adk.skills.models import Skill
from google.adk.tools.base_toolset import BaseToolset
from pydantic import BaseModel, TypeAdapter

from devui.runtime import _adk
from devui.runtime.guarded_reads import call_or, truncate
from sessions_app.store.redaction import redact_texts

MAX_SKILLS = 50
"""Most skills of a toolset that are described; further ones are only counted."""

MAX_FILES = 20
"""Most files of a skill whose text is described; further ones are only named."""

MAX_SKILL_TEXT = 10_000
"""Most characters of a skill's instruction, and of each of its files."""

SCHEMAS = ("input_schema", "output_schema", "state_schema")
"""Fields of agents and nodes that hold a type of data."""

GLOBAL_INSTRUCTION = (
    "global_instruction is deprecated: ADK will remove it. Use GlobalInstructionPlugin at the App."
)
"""ADK's warning when it reads the field (`LlmAgent.canonical_global_instruction`)."""


def find_cautions(parts: Iterable[Any]) -> list[dict[str, str]]:
    """Return what ADK says of the classes of an agent's parts: [{stage: deprecated | experimental, text}]."""
    cautions: dict[str, dict[str, str]] = {}
    for cls in dict.fromkeys(type(part) for part in parts if part is not None):
        if message := getattr(cls, "__deprecated__", ""):
            cautions[cls.__name__] = {"stage": "deprecated", "text": str(message)}
        elif _adk.is_experimental(cls):
            text = f"{cls.__name__} is experimental: ADK may change or remove it in any release."
            cautions[cls.__name__] = {"stage": "experimental", "text": text}
    return list(cautions.values())


def list_fallbacks(model: str | BaseLlm) -> list[str]:
    """Return the names of the models that are tried in order; none for a single model."""
    models = model.models if isinstance(model, FallbackModel) else []
    return [entry if isinstance(entry, str) else entry.model for entry in models]


def read_schemas(node: Any) -> dict[str, Any]:
    """Return the JSON schemas of the data that an agent or node takes, returns or keeps in its state."""
    types = {name: getattr(node, name, None) for name in SCHEMAS}
    return {name: _read_schema(kind) for name, kind in types.items() if kind is not None}


def _read_schema(kind: Any) -> dict[str, Any]:
    unknown: dict[str, Any] = {}
    return kind if isinstance(kind, dict) else call_or(lambda: TypeAdapter(kind).json_schema(), unknown)


def read_confirmation(tool: Any) -> str:
    """Return when a tool asks for a confirmation: "always", the name of the function that decides, or ""."""
    confirmation = _adk.get_confirmation(tool)
    if callable(confirmation):
        return str(getattr(confirmation, "__name__", type(confirmation).__name__))
    return "always" if confirmation else ""


def read_settings(part: Any, unshown: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the public attributes of a tool, toolset or plug-in that are plain values, models or configs."""
    values = {name: _plain_setting(value) for name, value in vars(part).items() if not name.startswith("_")}
    shown: dict[str, Any] = redact_texts(
        {name: value for name, value in values.items() if name not in unshown and value not in (None, "", {})}
    )
    return shown


def _plain_setting(value: Any) -> Any:
    if isinstance(value, BaseLlm):
        return value.model
    if isinstance(value, BaseModel):
        type_name: Any = type(value).__name__
        fields = call_or(lambda: value.model_dump(mode="json", exclude_defaults=True), type_name)
        return fields if len(json.dumps(fields)) <= MAX_SKILL_TEXT else type_name
    if isinstance(value, str):
        return truncate(value, MAX_SKILL_TEXT)
    return value if isinstance(value, bool | int | float) else None


def read_skills(toolset: BaseToolset) -> list[dict[str, Any]]:
    """Return the skills of a toolset: name, description, instructions, and files [{path, kind, text}]."""
    skills = _adk.list_skills(toolset)
    described = [_describe_skill(skill) for skill in skills[:MAX_SKILLS]]
    if rest := len(skills) - MAX_SKILLS:
        described += [{"name": f"and {rest} more", "description": ""}] if rest > 0 else []
    return described


def _describe_skill(skill: Skill) -> dict[str, Any]:
    resources = skill.resources
    files: list[tuple[str, str, Any]] = [
        *(("reference", path, text) for path, text in resources.references.items()),
        *(("asset", path, text) for path, text in resources.assets.items()),
        *(("script", path, script.src) for path, script in resources.scripts.items()),
    ]
    return {
        "name": skill.name,
        "description": truncate(skill.description, MAX_SKILL_TEXT),
        "instructions": truncate(skill.instructions, MAX_SKILL_TEXT),
        "files": [
            {"kind": kind, "path": path, "text": truncate(text, MAX_SKILL_TEXT) if number < MAX_FILES else ""}
            for number, (kind, path, text) in enumerate(files)
        ],
    }
