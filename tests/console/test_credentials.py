"""Credentials that agents request, and the answers that ADK accepts."""

from __future__ import annotations

import pytest
from google.adk.auth.auth_tool import AuthConfig

from sessions_app.console import credential_requests
from sessions_app.store.errors import BadInput

API_KEY = {"authScheme": {"type": "apiKey", "in": "header", "name": "X-Key"}, "credentialKey": "k"}
BASIC = {"authScheme": {"type": "http", "scheme": "basic"}, "credentialKey": "k"}
BEARER = {"authScheme": {"type": "http", "scheme": "bearer"}, "credentialKey": "k"}
OAUTH = {
    "authScheme": {
        "type": "oauth2",
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "https://id.example/auth",
                "tokenUrl": "https://id.example/token",
                "scopes": {"read": "read"},
            }
        },
    },
    "exchangedAuthCredential": {
        "authType": "oauth2",
        "oauth2": {
            "clientId": "me",
            "authUri": "https://id.example/auth?client_id=me&scope=read+write&state=s1&redirect_uri=x",
            "state": "s1",
        },
    },
    "credentialKey": "k",
}


def parse_answer(config: dict, **fields: str) -> AuthConfig:
    """Return an answer as ADK reads it."""
    request = credential_requests.parse_request({"authConfig": config})
    return AuthConfig.model_validate(credential_requests.answer_from_form(request, fields))


def test_an_api_key_is_answered():
    request = credential_requests.parse_request({"authConfig": API_KEY})
    assert (request.kind, request.name) == ("api_key", "X-Key")
    credential = parse_answer(API_KEY, api_key=" secret ").exchanged_auth_credential
    assert (credential.auth_type.value, credential.api_key) == ("apiKey", "secret")


def test_a_user_name_and_a_password_are_answered():
    credential = parse_answer(BASIC, username="ann", password=" p ").exchanged_auth_credential.http
    assert (credential.scheme, credential.credentials.username, credential.credentials.password) == (
        "basic",
        "ann",
        " p ",
    )


def test_a_bearer_token_is_answered():
    credential = parse_answer(BEARER, token="t").exchanged_auth_credential.http
    assert (credential.scheme, credential.credentials.token) == ("bearer", "t")


def test_the_address_after_a_sign_in_is_answered_with_where_it_led():
    request = credential_requests.parse_request({"authConfig": OAUTH})
    assert (request.provider, request.state, request.scopes) == ("id.example", "s1", ("read", "write"))
    back = "http://127.0.0.1/runs/signed-in/?state=s1&code=c"
    answer = credential_requests.answer_after_sign_in(request, back, "http://127.0.0.1/runs/signed-in/")
    credential = AuthConfig.model_validate(answer).exchanged_auth_credential.oauth2
    assert (credential.auth_response_uri, credential.redirect_uri) == (
        back,
        "http://127.0.0.1/runs/signed-in/",
    )
    assert (credential.client_id, credential.state) == ("me", "s1")


def test_only_redirect_uri_is_added_to_provider_address():
    request = credential_requests.parse_request({"authConfig": OAUTH})
    address = request.address("http://127.0.0.1/back/?a=1")
    assert address == (
        "https://id.example/auth?client_id=me&scope=read+write&state=s1"
        "&redirect_uri=http%3A%2F%2F127.0.0.1%2Fback%2F%3Fa%3D1"
    )


def test_an_access_token_is_answered_without_a_sign_in():
    credential = parse_answer(OAUTH, token="t").exchanged_auth_credential.oauth2
    assert (credential.access_token, credential.client_id) == ("t", "me")


def test_any_credential_can_be_answered_as_json():
    config = {"authScheme": {"type": "custom"}, "credentialKey": "k"}
    request = credential_requests.parse_request({"authConfig": config})
    assert request.kind == "other"
    answer = credential_requests.answer_from_form(
        request, {"credential": '{"authType": "apiKey", "apiKey": "x"}'}
    )
    assert answer["exchangedAuthCredential"] == {"authType": "apiKey", "apiKey": "x"}


@pytest.mark.parametrize(
    ("config", "body", "words"),
    [
        (API_KEY, {"api_key": " "}, "API key is missing"),
        (BASIC, {"password": "p"}, "user name is missing"),
        (BEARER, {}, "token is missing"),
        (OAUTH, {}, "address"),
        (OAUTH, {"response_uri": "https://x/?state=s1"}, "no code"),
        (OAUTH, {"response_uri": "https://x/?state=s2&code=c"}, "another sign-in"),
        (OAUTH, {"response_uri": "https://x/?error=access_denied&state=s1"}, "access_denied"),
        ({}, {}, "credential is empty"),
        ({}, {"credential": "{"}, "Line 1, column 2"),
        ({}, {"credential": "[]"}, "not a JSON object"),
    ],
)
def test_answer_without_required_fields_is_refused(config, body, words):
    with pytest.raises(BadInput, match=words):
        credential_requests.answer_from_form(credential_requests.parse_request({"authConfig": config}), body)


def test_provider_address_that_is_not_http_is_ignored():
    config = {
        **OAUTH,
        "exchangedAuthCredential": {"oauth2": {"authUri": "javascript:alert(1)//id.example", "state": "s"}},
    }
    assert credential_requests.parse_request({"authConfig": config}).provider == ""


@pytest.mark.parametrize("address", ["http://[", "http://[::1", "//", "\x00", "http://id.example:port"])
def test_an_address_that_is_none_breaks_no_page(address):
    config = {**OAUTH, "exchangedAuthCredential": {"oauth2": {"authUri": address}}}
    request = credential_requests.parse_request({"authConfig": config})
    assert request.kind == "oauth2"
    with pytest.raises(BadInput):
        credential_requests.answer_after_sign_in(request, address)


@pytest.mark.parametrize("args", [{}, {"authConfig": None}, {"authConfig": {"authScheme": []}}])
def test_a_request_of_another_shape_asks_for_some_credential(args):
    assert credential_requests.parse_request(args).kind == "other"
