"""A small OpenID Connect provider, in which one person has signed in."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any
from urllib.parse import unquote_plus, urlencode

from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from devui.config.single_sign_on import OidcProvider

CLIENT_ID, CLIENT_SECRET = "devui", "a secret: with % signs"
Answer = Callable[[Request], Awaitable[Response]]


@cache
def key_of(kid: str, use: str = "sig") -> RSAKey:
    """Return a key by its id."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": use})


class SmallProvider:
    """An OpenID Connect provider.

    Attributes:
        issuer: its URL; set when it is served.
        claims: claims about the person, in the ID token and the user info.
        id_token_claims: claims of ID tokens that replace the right ones; None leaves a claim out, a function gets the
            right one.
        answer: parameters of the callback beside code and state.
        user_info: claims only in the user info.
        key: the key that signs, published by `jwks`.
        description: members of the description that replace the right ones.
        broken: answers instead of the right one, by path.
        redirect_uris: the registered callback addresses.
    """

    def __init__(self) -> None:
        self.issuer = ""
        self.claims: dict[str, Any] = {"sub": "1", "email": "ann@example.com", "email_verified": True}
        self.id_token_claims: dict[str, Any] = {}
        self.user_info: dict[str, Any] = {}
        self.answer: dict[str, str] = {}
        self.key = self.signing_key = key_of("first")
        self.description: dict[str, Any] = {}
        self.broken: dict[str, Answer] = {}
        self.redirect_uris = {"http://127.0.0.1/login/sso/callback/"}
        self._grants: dict[str, dict[str, str]] = {}
        self._access_tokens: set[str] = set()

    @property
    def settings(self) -> OidcProvider:
        """The settings of a server that uses this provider; people without a user there become readers."""
        return OidcProvider(
            issuer=self.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            label="Example",
            scope="openid email profile",
            name_claim="email",
            group_claim="groups",
            group_roles={},
            default_role="reader",
        )

    @property
    def app(self) -> Starlette:
        """The provider as an ASGI application."""
        routes = {
            "/.well-known/openid-configuration": self._describe,
            "/authorize": self._authorize,
            "/token": self._token,
            "/jwks": self._jwks,
            "/userinfo": self._user_info,
        }
        return Starlette(
            routes=[
                Route(path, self._breakable(path, answer), methods=["GET", "POST"])
                for path, answer in routes.items()
            ]
        )

    def _breakable(self, path: str, answer: Answer) -> Answer:
        async def answer_or_break(request: Request) -> Response:
            return await self.broken.get(path, answer)(request)

        return answer_or_break

    async def _describe(self, request: Request) -> Response:
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
        paths = ("/authorize", "/token", "/jwks", "/userinfo")
        addresses = {name: self.issuer + path for name, path in zip(names, paths, strict=True)}
        return JSONResponse({"issuer": self.issuer, **addresses, **self.description})

    async def _authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert (query["client_id"], query["response_type"]) == (CLIENT_ID, "code")
        assert "openid" in query["scope"].split()
        assert query["redirect_uri"] in self.redirect_uris
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self._grants[code] = query
        answer = urlencode({"code": code, "state": query["state"], **self.answer})
        return RedirectResponse(f"{query['redirect_uri']}?{answer}", 303)

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        grant = self._grants.pop(form.get("code", ""), None)  # a code can be used once
        if self._secret_of(request, form) != CLIENT_SECRET:
            return JSONResponse({"error": "invalid_client"}, 401)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            grant is None
            or grant["code_challenge"] != challenge
            or grant["redirect_uri"] != form["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        access_token = secrets.token_urlsafe()
        self._access_tokens.add(access_token)
        id_token = self.sign(grant["nonce"])
        return JSONResponse({"access_token": access_token, "token_type": "Bearer", "id_token": id_token})

    def sign(self, nonce: str) -> str:
        """Return an ID token."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "exp": now + 300, "iat": now, "nonce": nonce}
        claims |= self.claims
        for name, value in self.id_token_claims.items():
            claims[name] = value(claims[name]) if callable(value) else value
        present = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode({"alg": "RS256", "kid": self.signing_key.kid}, present, self.signing_key)

    def _secret_of(self, request: Request, form: dict[str, str]) -> str:
        if "client_secret" in form:
            return form["client_secret"]
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        name, _, secret = base64.b64decode(value).decode().partition(":")
        return unquote_plus(secret) if (scheme, unquote_plus(name)) == ("Basic", CLIENT_ID) else ""

    async def _jwks(self, request: Request) -> Response:
        keys = [key_of("other", "enc"), self.key]
        return JSONResponse({"keys": [key.as_dict(private=False) for key in keys]})

    async def _user_info(self, request: Request) -> Response:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self._access_tokens:
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse({**self.claims, **self.user_info})
