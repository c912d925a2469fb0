"""Hypothesis strategies: JSON, hostile values, credentials, events."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from hypothesis import strategies as st

from sessions_app.store.redaction import AUTH_TYPES, SECRET_KEYS

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


def json_of(keys: st.SearchStrategy[str], leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON with these keys and leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


json_values = json_of(texts, scalars)

CARRIERS = [
    "authType",
    "auth_type",
    "name",
    "args",
    "response",
    "authConfig",
    "auth_config",
    "requestedAuthConfigs",
    "requested_auth_configs",
    "rawAuthCredential",
    "raw_auth_credential",
    "exchangedAuthCredential",
    "exchanged_auth_credential",
    "other",
]
credential_keys = st.sampled_from([*CARRIERS, *sorted(SECRET_KEYS)])
credential_leaves = st.sampled_from([*sorted(AUTH_TYPES), "adk_request_credential", "x", 1, None])
credentials = json_of(credential_keys, credential_leaves)

_parts = st.builds(types.Part, text=texts) | st.sampled_from(
    [
        types.Part(text="hm", thought=True),
        types.Part(function_call=types.FunctionCall(id="c1", name="look", args={})),
        types.Part(function_response=types.FunctionResponse(id="c1", name="look", response={})),
        types.Part(
            code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
        ),
        types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)),
        types.Part(inline_data=types.Blob(data=b"\xff", mime_type="image/png")),
    ]
)
_contents = st.builds(types.Content, role=st.just("model"), parts=st.none() | st.lists(_parts, max_size=3))
_actions = st.builds(
    EventActions,
    skip_summarization=st.none() | st.booleans(),
    state_delta=st.dictionaries(texts, json_values, max_size=3),
    escalate=st.none() | st.booleans(),
)
_metadata = st.dictionaries(st.sampled_from(["mine", "__adk_internal_a", "__adk_internal_b"]), json_values)

events = st.builds(
    Event,
    author=st.sampled_from(["user", "agent"]),
    invocation_id=texts,
    content=st.none() | _contents,
    actions=_actions,
    partial=st.none() | st.booleans(),
    error_code=st.none() | texts,
    error_message=st.none() | texts,
    long_running_tool_ids=st.none() | st.sets(texts, max_size=2),
    custom_metadata=st.none() | _metadata,
    output=json_values,
    branch=st.none() | texts,
    timestamp=st.floats(min_value=0, max_value=2e9),
)
