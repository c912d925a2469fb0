"""Requests to an OpenID Connect provider.

Nothing of a provider is cached: sign-ins are rare, and its keys and addresses may change.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import httpx

from devui.accounts.oidc import claims
from devui.accounts.oidc.claims import OidcIdentity
from devui.accounts.oidc.errors import ProviderFault, SignInRefused
from devui.accounts.oidc.flow import SignInFlow
from devui.config.single_sign_on import OidcProvider, is_safe_url

log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""Seconds for each response of the provider."""

MAX_BODY = 1024 * 1024
"""Bytes of a response of the provider."""

MAX_TEXT = 200
"""Characters of a provider's error that are shown."""


class ProviderClient:
    """A client of a provider whose discovery document has been read."""

    def __init__(self, http: httpx.AsyncClient, provider: OidcProvider, description: dict[str, Any]) -> None:
        self.provider = provider
        self._http = http
        self._description = description

    @classmethod
    @asynccontextmanager
    async def open(cls, provider: OidcProvider) -> AsyncIterator[Self]:
        """Yield a client of a provider.

        Raises:
            ProviderFault: the discovery document cannot be read, or names another issuer.
        """
        async with httpx.AsyncClient(timeout=TIMEOUT_S, headers={"Accept": "application/json"}) as http:
            description = await _fetch_json(http, "GET", provider.discovery_url)
            issuer = description.get("issuer")
            if not isinstance(issuer, str) or issuer.rstrip("/") != provider.issuer:
                raise ProviderFault(
                    f"{provider.discovery_url} describes the issuer {str(issuer)[:MAX_TEXT]!r}.",
                    hint="An admin of this server can correct DEVUI_OIDC_ISSUER.",
                )
            yield cls(http, provider, description)

    def authorization_url(self, flow: SignInFlow, callback_url: str) -> str:
        """Return the address at which the person signs in."""
        parameters = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": callback_url,
            "scope": self.provider.scope,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        address = self._read_endpoint("authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(parameters)}"

    def require_own_answer(self, answer: Mapping[str, str]) -> None:
        """Check that the query of the callback request comes from this provider, if it says so (RFC 9207).

        Raises:
            ProviderFault: it names another issuer, or none although the provider announces that it does.
        """
        announces = self._description.get("authorization_response_iss_parameter_supported") is True
        if ("iss" in answer or announces) and answer.get("iss") != self._description["issuer"]:
            raise ProviderFault(f"Another provider than {self.provider.label} answered.")

    async def fetch_identity(self, flow: SignInFlow, code: str, callback_url: str) -> OidcIdentity:
        """Return the person who has signed in.

        Raises:
            ProviderFault: the provider does not answer, or its answer is not valid.
            SignInRefused: the provider does not name the person.
        """
        tokens = await self._fetch_tokens(flow, code, callback_url)
        keys = await _fetch_json(self._http, "GET", self._read_endpoint("jwks_uri"))
        id_token, issuer = str(tokens.get("id_token")), self._description["issuer"]
        person_claims = claims.verify_id_token(self.provider, issuer, keys, id_token, flow.nonce)
        if claims.missing_claims(self.provider, person_claims) and "userinfo_endpoint" in self._description:
            user_info = await self._fetch_user_info(tokens, person_claims["sub"])
            person_claims = claims.add_user_info(person_claims, user_info)
        return claims.read_identity(self.provider, person_claims)

    async def _fetch_tokens(self, flow: SignInFlow, code: str, callback_url: str) -> dict[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback_url,
            "code_verifier": flow.verifier,
        }
        client_id, secret = self.provider.client_id, self.provider.client_secret
        methods = self._description.get("token_endpoint_auth_methods_supported")
        if isinstance(methods, list) and "client_secret_post" in methods:
            form |= {"client_id": client_id, "client_secret": secret}
            auth = None
        else:  # what every provider has to accept
            auth = httpx.BasicAuth(quote(client_id, safe=""), quote(secret, safe=""))
        return await _fetch_json(
            self._http, "POST", self._read_endpoint("token_endpoint"), data=form, auth=auth
        )

    async def _fetch_user_info(self, tokens: dict[str, Any], subject: object) -> dict[str, Any]:
        header = {"Authorization": f"Bearer {tokens.get('access_token')}"}
        user_info = await _fetch_json(
            self._http, "GET", self._read_endpoint("userinfo_endpoint"), headers=header
        )
        if user_info.get("sub") != subject:
            raise ProviderFault("The provider described another person than the one who signed in.")
        return user_info

    def _read_endpoint(self, name: str) -> str:
        """Return an endpoint from the discovery document."""
        address = self._description.get(name)
        if not isinstance(address, str) or not is_safe_url(address):
            raise ProviderFault(f"The provider describes no https:// address as its {name}.")
        return address


def require_code(provider: OidcProvider, answer: Mapping[str, str]) -> str:
    """Return the code in the query of the callback request.

    Raises:
        SignInRefused: the provider refuses the person.
    """
    if error := answer.get("error"):
        reason = answer.get("error_description") or error
        raise SignInRefused(
            f"{provider.label} refused the sign-in: {reason[:MAX_TEXT]}.", hint="Sign in again."
        )
    return answer.get("code", "")


async def warn_about_faults(provider: OidcProvider) -> None:
    """Log a warning if the discovery document of a provider cannot be read."""
    try:
        async with ProviderClient.open(provider):
            pass
    except ProviderFault as error:
        log.warning("Nobody can use single sign-on: %s", error.message)


async def _fetch_json(http: httpx.AsyncClient, method: str, url: str, **arguments: Any) -> dict[str, Any]:
    """Send a request to the provider and return the JSON object of its response."""
    try:
        async with asyncio.timeout(TIMEOUT_S), http.stream(method, url, **arguments) as response:
            content = _parse_json_object(await _read_body(url, response))
    except (TimeoutError, httpx.TimeoutException) as error:
        raise ProviderFault(f"{url} did not answer within {TIMEOUT_S:.0f} s.") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise ProviderFault(f"{url} cannot be reached: {error}.") from error
    if not response.is_success:
        reason = f": {str(content['error'])[:MAX_TEXT]}" if content and "error" in content else ""
        raise ProviderFault(f"{url} answered {response.status_code}{reason}.")
    if content is None:
        raise ProviderFault(f"{url} did not answer a JSON object.")
    return content


async def _read_body(url: str, response: httpx.Response) -> bytes:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_BODY:
            raise ProviderFault(f"{url} answered more than {MAX_BODY:,} bytes.")
    return bytes(body)


def _parse_json_object(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
