"""An event in which every field of ADK's `Event` and `EventActions` is set."""

from __future__ import annotations

from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

ACCESS_TOKEN = "ya29.a-secret"
INTERNAL_MARK = "__adk_internal_restored"

AUTH_SCHEME = {
    "type": "oauth2",
    "flows": {"clientCredentials": {"tokenUrl": "https://example.org/token", "scopes": {"read": "read"}}},
}


def full_event() -> Event:
    """Return an event that leaves no field empty but `partial`."""
    return Event(
        id="e-full",
        invocation_id="i-full",
        author="agent",
        timestamp=1_742_000_000.123456,
        branch="root.left@2",
        isolation_scope="call-1",
        content=full_content(),
        turn_complete=True,
        turn_complete_reason=types.TurnCompleteReason.NEED_MORE_INPUT,
        interaction_status=types.InteractionStatus.IDLE,
        finish_reason=types.FinishReason.STOP,
        error_code="429",
        error_message="quota",
        interrupted=True,
        custom_metadata={"mine": {"deep": [1, None]}, INTERNAL_MARK: True},
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=11, candidates_token_count=7, total_token_count=18, thoughts_token_count=3
        ),
        grounding_metadata=types.GroundingMetadata(web_search_queries=["weather"]),
        citation_metadata=types.CitationMetadata(
            citations=[types.Citation(uri="https://example.org", title="x")]
        ),
        live_session_resumption_update=types.LiveServerSessionResumptionUpdate(
            new_handle="h", resumable=True
        ),
        live_session_id="live-1",
        go_away=types.LiveServerGoAway(time_left="10s"),
        voice_activity=types.VoiceActivity(voice_activity_type=types.VoiceActivityType.ACTIVITY_START),
        input_transcription=types.Transcription(text="in", finished=True),
        output_transcription=types.Transcription(text="out", finished=False),
        avg_logprobs=-0.25,
        logprobs_result=types.LogprobsResult(
            chosen_candidates=[types.LogprobsResultCandidate(token="a", log_probability=-0.5)]
        ),
        model_version="scripted-1",
        cache_metadata=CacheMetadata(
            cache_name="c/1",
            expire_time=1.5,
            fingerprint="f",
            invocations_used=2,
            contents_count=3,
            created_at=0.5,
        ),
        interaction_id="int-1",
        environment_id="env-1",
        long_running_tool_ids={"call-2", "call-1"},
        output={"answer": [1, {"deep": None}]},
        node_info=NodeInfo(path="wf@1/agent@2", output_for=["wf@1"], message_as_output=True),
        actions=full_actions(),
    )


def full_content() -> types.Content:
    """Return content with one part of every kind that agents send."""
    return types.Content(
        role="model",
        parts=[
            types.Part(text="hello"),
            types.Part(text="hm", thought=True, thought_signature=b"\xfb\xff\x00sig"),
            types.Part(
                inline_data=types.Blob(data=bytes(range(256)), mime_type="image/png", display_name="a.png")
            ),
            types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="text/plain")),
            types.Part(
                function_call=types.FunctionCall(id="call-1", name="look", args={"where": None, "n": 2**60})
            ),
            types.Part(
                function_response=types.FunctionResponse(
                    id="call-1", name="look", response={"found": [True, None]}
                )
            ),
            types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON)),
            types.Part(
                code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")
            ),
        ],
    )


def full_actions() -> EventActions:
    """Return actions that leave no field empty."""
    return EventActions(
        skip_summarization=True,
        state_delta={"a": None, "app:b": [1, 2.5], "user:c": {"deep": True}},
        artifact_delta={"report.txt": 3},
        transfer_to_agent="other",
        transfer_reason="knows more",
        escalate=True,
        requested_auth_configs={"call-1": auth_config()},
        requested_tool_confirmations={"call-2": ToolConfirmation(hint="sure?", payload={"rows": [1]})},
        compaction=EventCompaction(
            start_timestamp=1.25,
            end_timestamp=2.5,
            compacted_content=types.Content(role="model", parts=[types.Part(text="what was said")]),
        ),
        end_of_agent=True,
        agent_state={"step": 2, "nothing": None},
        rewind_before_invocation_id="i-0",
        route=["left", 1, True],
        render_ui_widgets=[UiWidget(id="w1", provider="mcp", payload={"resource_uri": "ui://x"})],
        set_model_response={"structured": [1]},
    )


def auth_config() -> AuthConfig:
    """Return a request for credentials that holds a secret."""
    return AuthConfig(
        auth_scheme=AUTH_SCHEME,
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=OAuth2Auth(client_id="me", client_secret="hush", access_token=ACCESS_TOKEN),
        ),
        credential_key="k",
    )
