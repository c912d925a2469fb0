"""Credential requests of agents and the answers to them. Pure.

ADK sends an `AuthConfig` (`google/adk/auth/auth_tool.py`) as argument of a call named `adk_request_credential`. The
answer is that config with `exchangedAuthCredential` filled in; of it ADK takes the credential alone
(`google/adk/auth/_auth_resume.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from sessions_app.presentation import schema_form
from sessions_app.store.errors import BadInput

CredentialKind = Literal["api_key", "basic", "bearer", "oauth2", "other"]

SIGN_IN_TYPES = frozenset({"oauth2", "openIdConnect"})


class InvalidAnswer(BadInput):
    """A form holds no valid answer. `faults` maps input names to messages; the empty name means the whole answer."""

    def __init__(
        self, faults: dict[str, str], message: str, *, hint: str = "Correct it and send it again."
    ) -> None:
        super().__init__(message, hint=hint)
        self.faults = faults

    @classmethod
    def at(cls, name: str, message: str, *, hint: str) -> InvalidAnswer:
        """Return the error of one input."""
        return cls({name: f"{message} {hint}"}, message, hint=hint)


@dataclass(frozen=True, slots=True)
class CredentialRequest:
    """A credential that an agent requests.

    Attributes:
        config: the `AuthConfig` in wire form, without secrets.
        name: the header, query parameter or scheme that takes the credential.
        auth_uri: the sign-in URL; empty if ADK generated none.
    """

    kind: CredentialKind
    config: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    auth_uri: str = ""
    state: str = ""
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """Host of the sign-in page; empty if `auth_uri` is no HTTP URL."""
        url = _split_url(self.auth_uri)
        return url.netloc if url.scheme in {"http", "https"} else ""

    def address(self, redirect_uri: str) -> str:
        """Return the sign-in URL with the given redirect URI."""
        url = _split_url(self.auth_uri)
        query = [(name, value) for name, value in parse_qsl(url.query) if name != "redirect_uri"]
        return urlunsplit(url._replace(query=urlencode([*query, ("redirect_uri", redirect_uri)])))


def parse_request(args: Mapping[str, Any]) -> CredentialRequest:
    """Return the credential request in the arguments of a call."""
    config = args.get("authConfig") or args.get("auth_config")
    config = dict(config) if isinstance(config, Mapping) else {}
    scheme = _mapping_or_empty(config.get("authScheme"))
    kind = str(scheme.get("type") or "")
    if kind == "apiKey":
        return CredentialRequest("api_key", config, name=str(scheme.get("name") or ""))
    if kind == "http":
        name = str(scheme.get("scheme") or "bearer")
        return CredentialRequest("basic" if name.lower() == "basic" else "bearer", config, name=name)
    if kind in SIGN_IN_TYPES:
        return _sign_in_request(config)
    return CredentialRequest("other", config, name=kind)


def answer_from_form(request: CredentialRequest, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer from a form's inputs: api_key, username and password, token, response_uri or credential.

    Raises:
        InvalidAnswer: a required input is missing.
    """
    inputs = {name: text.strip() for name, text in posted.items()}
    if inputs.get("credential"):
        return _with_credential(request, _json_object(inputs["credential"]))
    if request.kind == "api_key":
        return _with_credential(
            request, {"authType": "apiKey", "apiKey": _require_input(inputs, "api_key", "The API key")}
        )
    if request.kind == "basic":
        login = {
            "username": _require_input(inputs, "username", "The user name"),
            "password": posted.get("password", ""),
        }
        return _with_credential(request, _http_credential(request, login))
    if request.kind == "bearer":
        return _with_credential(
            request, _http_credential(request, {"token": _require_input(inputs, "token", "The token")})
        )
    if request.kind == "oauth2":
        if inputs.get("token"):
            return _with_credential(request, _oauth2_credential(request, accessToken=inputs["token"]))
        return answer_after_sign_in(
            request, _require_input(inputs, "response_uri", "The address you came back to")
        )
    raise InvalidAnswer.at(
        "credential", "The credential is empty.", hint="Write it as JSON: one of ADK's AuthCredential."
    )


def answer_after_sign_in(
    request: CredentialRequest, response_uri: str, redirect_uri: str = ""
) -> dict[str, Any]:
    """Return the answer after a sign-in that redirected to `response_uri`.

    Raises:
        InvalidAnswer: the URL has no code, reports an error, or belongs to another sign-in.
    """
    query = parse_qs(_split_url(response_uri).query)
    if "error" in query:
        why = (query.get("error_description") or query["error"])[0]
        raise InvalidAnswer.at(
            "response_uri", f"The provider refused: {why}", hint="Sign in again, or answer without it."
        )
    if "code" not in query:
        raise InvalidAnswer.at(
            "response_uri",
            "The address contains no code.",
            hint="Copy the whole address of the page you were redirected to, with the part after the question mark.",
        )
    if request.state and query.get("state", [""])[0] != request.state:
        raise InvalidAnswer.at(
            "response_uri",
            "The address belongs to another sign-in.",
            hint="Sign in again from the question that you answer.",
        )
    where = redirect_uri or request.redirect_uri
    return _with_credential(
        request,
        _oauth2_credential(
            request, authResponseUri=response_uri, **({"redirectUri": where} if where else {})
        ),
    )


def _sign_in_request(config: dict[str, Any]) -> CredentialRequest:
    exchanged = _mapping_or_empty(config.get("exchangedAuthCredential"))
    oauth2 = _mapping_or_empty(exchanged.get("oauth2"))
    uri = str(oauth2.get("authUri") or "")
    query = parse_qs(_split_url(uri).query)
    return CredentialRequest(
        "oauth2",
        config,
        auth_uri=uri,
        state=str(oauth2.get("state") or query.get("state", [""])[0]),
        redirect_uri=str(oauth2.get("redirectUri") or ""),
        scopes=tuple(query.get("scope", [""])[0].split()),
    )


def _oauth2_credential(request: CredentialRequest, **filled: str) -> dict[str, Any]:
    credential = _mapping_or_empty(request.config.get("exchangedAuthCredential"))
    kind = credential.get("authType") or "oauth2"
    return {
        **credential,
        "authType": kind,
        "oauth2": {**_mapping_or_empty(credential.get("oauth2")), **filled},
    }


def _http_credential(request: CredentialRequest, login: dict[str, str]) -> dict[str, Any]:
    return {"authType": "http", "http": {"scheme": request.name or "bearer", "credentials": login}}


def _with_credential(request: CredentialRequest, credential: dict[str, Any]) -> dict[str, Any]:
    return {**request.config, "exchangedAuthCredential": credential}


def _require_input(inputs: Mapping[str, str], name: str, words: str) -> str:
    if not inputs.get(name):
        raise InvalidAnswer.at(name, f"{words} is missing.", hint="Fill it in and send it again.")
    return inputs[name]


def _json_object(text: str) -> dict[str, Any]:
    value, error = schema_form.parse_json_input(text)
    if error:
        raise InvalidAnswer.at(
            "credential", f"The credential is not valid JSON. {error}", hint="Correct it and send it again."
        )
    if not isinstance(value, dict):
        raise InvalidAnswer.at(
            "credential",
            "The credential is not a JSON object.",
            hint='ADK\'s AuthCredential is one: {"authType": "apiKey", "apiKey": "…"}.',
        )
    return value


def _split_url(address: str) -> SplitResult:
    """Return the parts of a URL; empty parts if it is invalid."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
