"""Models of evalset files accept and refuse the same files as ADK's classes."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.local_eval_sets_manager import convert_eval_set_to_pydantic_schema
from pydantic import ValidationError

from evals_app import files
from evals_app.files import BadFile
from evals_app.metrics import config
from tests.evals.builders import FULL, LEGACY, write

VALUES = [None, 1, 1.5, True, "s", "", [], {}, [1], {"a": 1}, "1", "aGk", "%%", "NOVICE"]
CONFIG = {
    "criteria": {
        "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
        "response_match_score": 0.5,
        "mine": {"threshold": 1, "includeIntermediateResponsesInFinal": True, "more": [1]},
    },
    "custom_metrics": {
        "mine": {
            "code_config": {"name": "a.b"},
            "metric_info": {
                "metric_name": "mine",
                "description": "d",
                "metric_value_info": {"interval": {"min_value": -1.0, "maxValue": 3.0, "open_at_min": True}},
            },
            "description": "x",
        }
    },
    "user_simulator_config": {"type": "llm_backed", "model": "m", "maxAllowedInvocations": 3},
    "liveModelConfig": {"timeoutSeconds": 3},
}


def as_adk_reads(text: str) -> EvalSet:
    """`load_eval_set_from_file` of ADK's `local_eval_sets_manager`."""
    try:
        return EvalSet.model_validate_json(text)
    except ValidationError:
        return convert_eval_set_to_pydantic_schema("x", json.loads(text))


def adk_accepts(text: str) -> bool:
    try:
        as_adk_reads(text)
    except Exception:
        return False
    return True


def we_accept(text: str) -> bool:
    try:
        files.parse(text, "a.evalset.json", "a")
    except BadFile:
        return False
    return True


def paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*path, key))


def at(value: Any, path: tuple) -> Any:
    for key in path:
        value = value[key]
    return value


def to_snake_case(name: str) -> str:
    if "_" in name:
        return re.sub(r"_(.)", lambda match: match[1].upper(), name)
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def mutate(document: Any, chance: random.Random) -> Any:
    """Return the document with one thing taken away, replaced, added or spelled the other way."""
    document = copy.deepcopy(document)
    path = chance.choice([path for path in paths(document) if path])
    owner, key, target = at(document, path[:-1]), path[-1], at(document, path)
    how = chance.choice(["remove", "replace", "add", "respell"])
    if how == "remove":
        del owner[key]
    elif how == "replace":
        owner[key] = copy.deepcopy(chance.choice(VALUES))
    elif how == "add" and isinstance(target, dict):
        target["zzz"] = 1
    elif how == "add" and isinstance(target, list):
        target.append(copy.deepcopy(chance.choice(VALUES)))
    elif how == "respell" and isinstance(key, str):
        owner[to_snake_case(key)] = owner.pop(key)
    return document


@pytest.mark.parametrize("document", [FULL, LEGACY], ids=["present", "legacy"])
@pytest.mark.parametrize("tries", [300, pytest.param(1500, marks=pytest.mark.soak)])
def test_a_changed_file_is_accepted_or_refused_as_adk_does(document, tries):
    chance = random.Random(7)
    assert adk_accepts(json.dumps(document))
    assert we_accept(json.dumps(document))
    for _ in range(tries):
        text = json.dumps(mutate(document, chance))
        assert we_accept(text) == adk_accepts(text), text


@pytest.mark.parametrize("document", [FULL, LEGACY], ids=["present", "legacy"])
def test_evalset_passed_to_adk_equals_adks_own_reading(document):
    def comparable(evalset: EvalSet) -> Any:
        dumped = evalset.model_dump(mode="json", exclude_defaults=True)
        for case in dumped["eval_cases"]:
            case.pop("creation_timestamp", None)
            for turn in case.get("conversation") or []:
                turn.pop("creation_timestamp", None)
                turn.pop("invocation_id", None)
        return dumped["eval_cases"]

    text = json.dumps(document)
    ours = EvalSet.model_validate(files.parse(text, "a.evalset.json", "a").as_adk())
    assert comparable(ours) == comparable(as_adk_reads(text))


def test_a_changed_configuration_is_accepted_or_refused_as_adk_does(tmp_path):
    chance = random.Random(11)
    for _ in range(300):
        document = mutate(CONFIG, chance)
        try:
            EvalConfig.model_validate_json(json.dumps(document))
            adk = True
        except ValidationError:
            adk = False
        try:
            config.read_config_file(write(tmp_path, "test_config.json", document))
            ours = True
        except BadFile:
            ours = False
        assert ours == adk, document


def test_config_read_equals_adks_own_reading(tmp_path):
    ours = config.read_config_file(write(tmp_path, "test_config.json", CONFIG)).data
    assert EvalConfig.model_validate(ours) == EvalConfig.model_validate(CONFIG)
