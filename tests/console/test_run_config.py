"""The schema of ADK's RunConfig, and what ADK finds wrong with values: a contract with the ADK that is installed."""

from __future__ import annotations

import json

import pytest
from google.adk.agents.run_config import RunConfig

from devui.runtime import run_config
from devui.runtime.config import RuntimeOptions
from sessions_app.presentation import schemaform

OPTIONS = RuntimeOptions()


def test_every_field_of_adks_run_config_is_a_field_of_the_form():
    fields = {field.name: field for field in schemaform.fields_of(run_config.schema(), "config.")}
    assert fields.keys() == RunConfig.model_fields.keys()
    deprecated = {name for name, field in RunConfig.model_fields.items() if field.deprecated}
    assert {name for name, field in fields.items() if field.is_deprecated} == deprecated != set()
    assert all(field.description for field in fields.values())


def test_the_schema_is_json_and_stands_beside_the_agents_of_every_app():
    assert len(json.dumps(run_config.schema())) < 30_000


def test_the_controls_fit_the_fields():
    fields = {field.name: field for field in schemaform.fields_of(run_config.schema(), "config.")}
    assert fields["max_llm_calls"].kind == "integer"
    assert fields["support_cfc"].kind == "boolean"
    assert fields["streaming_mode"].choices == (("sse", "sse"), ("bidi", "bidi"))
    assert ("AUDIO", "AUDIO") in fields["response_modalities"].choices
    assert "voiceConfig" in fields["speech_config"].keys


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"max_llm_calls": 3}, []),
        ({"max_llm_calls": 2**63}, ["max_llm_calls"]),
        ({"max_llm_cals": 3}, ["max_llm_cals"]),
        ({"http_options": {"timeout": "soon"}}, ["http_options"]),
        ({"service_tier": "deferred"}, [""]),
    ],
)
def test_what_adk_refuses_is_told_by_the_name_of_its_field(given, fields):
    found = run_config.problems({"run_config": given, "streaming": True}, OPTIONS)
    assert list(found) == fields
    assert all(found.values())


def test_what_is_unset_is_as_the_server_was_started_with():
    limited = RuntimeOptions(max_llm_calls=7)
    assert run_config.run_config({}, limited).max_llm_calls == 7
    assert run_config.run_config({"run_config": {"max_llm_calls": 3}}, limited).max_llm_calls == 3


def test_the_switch_for_streaming_gives_way_to_a_mode_that_is_set():
    asked = {"streaming": True, "run_config": {"streaming_mode": None}}
    assert run_config.run_config(asked, OPTIONS).streaming_mode.value is None
    assert run_config.run_config({"streaming": True}, OPTIONS).streaming_mode.value == "sse"
