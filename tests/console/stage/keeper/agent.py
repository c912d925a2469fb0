import os

from acting import Acting
from fastapi.openapi.models import (
    APIKey,
    APIKeyIn,
    HTTPBearer,
    OAuth2,
    OAuthFlowAuthorizationCode,
    OAuthFlows,
)
from google.adk.agents import LlmAgent
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools import LongRunningFunctionTool, request_input
from google.adk.tools.tool_context import ToolContext
from pydantic import BaseModel

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # the provider of the test is on loopback, without TLS


class Decision(BaseModel):
    """What the boss says."""

    approved: bool
    days: int = 0


def ask_boss(what: str) -> Decision | None:
    """Ask somebody who answers later."""
    return None


def _asked(config: AuthConfig, context: ToolContext) -> AuthCredential | None:
    credential = context.get_auth_response(config)
    if credential is None:
        context.request_credential(config)
    return credential


def use_key(tool_context: ToolContext) -> dict:
    """Use an API key."""
    scheme = APIKey(**{"type": "apiKey", "in": APIKeyIn.header, "name": "X-Key"})
    credential = _asked(AuthConfig(auth_scheme=scheme, credential_key="key"), tool_context)
    return {"used": credential.api_key} if credential else {"pending": True}


def use_token(tool_context: ToolContext) -> dict:
    """Use a bearer token."""
    config = AuthConfig(auth_scheme=HTTPBearer(type="http", scheme="bearer"), credential_key="token")
    credential = _asked(config, tool_context)
    return {"used": credential.http.credentials.token} if credential else {"pending": True}


def use_account(provider: str, tool_context: ToolContext) -> dict:
    """Use what somebody grants at a provider."""
    flow = OAuthFlowAuthorizationCode(
        authorizationUrl=f"{provider}/auth", tokenUrl=f"{provider}/token", scopes={"read": "read"}
    )
    config = AuthConfig(
        auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=flow)),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=OAuth2Auth(client_id="me", client_secret="mine"),
        ),
        credential_key="account",
    )
    credential = _asked(config, tool_context)
    return {"used": credential.oauth2.access_token} if credential else {"pending": True}


root_agent = LlmAgent(
    name="keeper",
    model=Acting(),
    tools=[LongRunningFunctionTool(ask_boss), use_key, use_token, use_account, request_input],
)
