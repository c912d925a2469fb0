"""The schema of ADK's RunConfig and its validation: a contract with the installed ADK."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from django.http import QueryDict
from google.adk.agents.run_config import RunConfig

from devui.runtime import run_config
from devui.runtime.config import RuntimeOptions
from sessions_app.presentation import schema_form
from sessions_app.presentation.schema_form import FormField

OPTIONS = RuntimeOptions()


def test_every_field_of_adks_run_config_is_a_field_of_the_form():
    fields = {field.name: field for field in schema_form.build_fields(run_config.schema(), "config.")}
    assert fields.keys() == RunConfig.model_fields.keys()
    deprecated = {name for name, field in RunConfig.model_fields.items() if field.deprecated}
    assert {name for name, field in fields.items() if field.is_deprecated} == deprecated != set()
    assert all(field.description for field in fields.values())


def test_schema_is_json_available_beside_every_apps_agents():
    assert len(json.dumps(run_config.schema())) < 40_000


def test_the_controls_fit_the_fields():
    fields = {field.name: field for field in schema_form.build_fields(run_config.schema(), "config.")}
    assert fields["max_llm_calls"].kind == "integer"
    assert fields["support_cfc"].kind == "boolean"
    assert fields["streaming_mode"].choices == (("sse", "sse"), ("bidi", "bidi"))
    assert ("AUDIO", "AUDIO") in fields["response_modalities"].choices
    voice = fields["speech_config"].fields[0].fields[1].fields[0]
    assert (voice.input_name, voice.kind) == (
        "config.speech_config.voiceConfig.prebuiltVoiceConfig.voiceName",
        "text",
    )
    assert fields["http_options"].kind == fields["get_session_config"].kind == "group"


def test_every_object_with_fields_has_form_fields():
    """JSON is left for what no control says: any keys, lists of objects, what has no JSON at all."""

    def written_as_json(fields: Iterable[FormField]) -> set[str]:
        names = {field.name for field in fields if field.kind == "json"}
        return names.union(*(written_as_json(field.fields) for field in fields))

    fields = schema_form.build_fields(run_config.schema(), "config.")
    clients = {"clientArgs", "asyncClientArgs", "httpxClient", "httpxAsyncClient", "aiohttpClient"}
    keyed = {"labels", "headers", "extraBody", "custom_metadata"}
    lists = {"speakerVoiceConfigs", "model_input_context"}
    assert written_as_json(fields) == {*clients, *keyed, *lists, "languageAuto"}


def test_form_fields_make_a_config_that_adk_accepts():
    posted = QueryDict(
        "config.http_options.timeout=5&config.http_options.retryOptions.httpStatusCodes=429%0A503"
        "&config.speech_config.voiceConfig.prebuiltVoiceConfig.voiceName=Puck"
        "&config.tool_thread_pool_config.max_workers=2&config.max_llm_calls=3"
    )
    value, problems = schema_form.read_value(
        schema_form.fill_fields(schema_form.build_fields(run_config.schema(), "config."), posted)
    )
    assert not schema_form.invalid_fields(problems)
    config = run_config.build_run_config({"run_config": value}, OPTIONS)
    assert config.http_options.retry_options.http_status_codes == [429, 503]
    assert config.speech_config.voice_config.prebuilt_voice_config.voice_name == "Puck"
    assert (config.tool_thread_pool_config.max_workers, config.max_llm_calls) == (2, 3)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"max_llm_calls": 3}, []),
        ({"max_llm_calls": 2**63}, ["max_llm_calls"]),
        ({"max_llm_cals": 3}, ["max_llm_cals"]),
        ({"http_options": {"timeout": "soon"}}, ["http_options"]),
        ({"service_tier": "deferred"}, [""]),
    ],
)
def test_adks_errors_are_mapped_to_field_names(value, fields):
    problems = run_config.find_problems({"run_config": value, "streaming": True}, OPTIONS)
    assert list(problems) == fields
    assert all(problems.values())


def test_unset_fields_default_to_server_options():
    limited = RuntimeOptions(max_llm_calls=7)
    assert run_config.build_run_config({}, limited).max_llm_calls == 7
    assert run_config.build_run_config({"run_config": {"max_llm_calls": 3}}, limited).max_llm_calls == 3


def test_streaming_switch_yields_to_explicit_mode():
    parameters = {"streaming": True, "run_config": {"streaming_mode": None}}
    assert run_config.build_run_config(parameters, OPTIONS).streaming_mode.value is None
    assert run_config.build_run_config({"streaming": True}, OPTIONS).streaming_mode.value == "sse"
