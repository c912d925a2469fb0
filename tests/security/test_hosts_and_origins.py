"""Only DevUI's own pages, allowed origins and programs may call it."""

from __future__ import annotations

import pytest

from tests.security.routes import addresses

SESSIONS = "/apps/weather/users/ann/sessions"
EVIL = "http://evil.example"
REBOUND_HOSTS = [
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "127.0.0.1:8000.evil.example",
    "localhost.evil.example",
    "evil.example,127.0.0.1",
    "127.0.0.1@evil.example",
    "0.0.0.0",
    "[::ffff:1.2.3.4]",
    "",
]
KNOWN_HOSTS = ["127.0.0.1", "127.0.0.1:8123", "localhost:3", "LOCALHOST", "localhost.", "[::1]", "[::1]:8000"]
FOREIGN_ORIGINS = [
    EVIL,
    "null",
    "http://127.0.0.1:3000",
    "https://127.0.0.1",
    "http://localhost",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.1@evil.example",
    "file://",
    "",
]


@pytest.mark.parametrize("host", REBOUND_HOSTS)
async def test_a_rebound_name_reaches_nothing(web, host):
    for path in (
        "/list-apps",
        SESSIONS,
        "/api/v1/sessions",
        "/health",
        "/static/devui/js/core/app.js",
        "/sessions/",
        "/",
    ):
        answer = await web.get(path, headers={"Host": host})
        assert answer.status_code == 403, path
        assert "Forbidden: host not allowed" in answer.text
        assert "DEVUI_ALLOWED_HOSTS" in answer.text
        assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("host", KNOWN_HOSTS)
async def test_own_host_names_are_known(web, host):
    assert (await web.get("/health", headers={"Host": host})).status_code == 200


async def test_every_address_checks_the_host(web):
    for address in addresses():
        assert (await web.get(address, headers={"Host": "evil.example"})).status_code == 403, address


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_foreign_origin_is_refused_for_every_method(web, session, origin):
    for method in ("GET", "POST", "PATCH", "DELETE", "OPTIONS"):
        answer = await web.request(method, SESSIONS + "/s1", headers={"Origin": origin})
        assert answer.status_code == 403, method
        assert answer.json()["detail"] == "Forbidden: origin not allowed"
        assert answer.json()["code"] == "origin_not_allowed"
        assert "access-control-allow-origin" not in answer.headers
    assert (await web.get(SESSIONS + "/s1")).status_code == 200


async def test_every_address_checks_the_origin(web):
    for address in addresses():
        for method in ("GET", "POST"):
            answer = await web.request(method, address, headers={"Origin": EVIL})
            assert answer.status_code == 403, (method, address)


async def test_the_own_origin_may_read_and_write(web):
    own = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert (await web.post(SESSIONS, json={}, headers=own)).status_code == 200
    assert (await web.get(SESSIONS, headers=own)).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
async def test_cross_site_requests_cannot_write(web, session, site):
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        answer = await web.request(method, SESSIONS + "/s1", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 403, method
        assert answer.json()["code"] == "cross_site"
    assert (await web.get(SESSIONS + "/s1")).status_code == 200


@pytest.mark.parametrize("site", ["none", "same-origin"])
async def test_own_pages_can_write(web, site):
    assert (await web.post(SESSIONS, json={}, headers={"Sec-Fetch-Site": site})).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_a_form_of_another_site_cannot_smuggle_json(web, content_type):
    """Such a request needs no preflight, and Django checks no token on an API without cookies."""
    headers = {"Content-Type": content_type, "Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
    for path in (SESSIONS, "/run", "/run_sse", "/api/v1/runs"):
        answer = await web.post(path, content='{"sessionId": "smuggled"}', headers=headers)
        assert answer.status_code == 403
    assert (await web.get(SESSIONS)).json() == []


class TestAllowedOrigins:
    """DEVUI_ALLOW_ORIGINS, by the rules of `adk web --allow_origins`."""

    @pytest.fixture(autouse=True)
    def allow(self, settings):
        settings.DEVUI_ALLOW_ORIGINS = ["https://ui.example", r"regex:https://.*\.trusted\.example"]

    @pytest.mark.parametrize("origin", ["https://ui.example", "https://a.trusted.example"])
    async def test_an_allowed_origin_reads_and_writes(self, web, origin):
        headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
        created = await web.post(SESSIONS, json={}, headers=headers)
        assert created.status_code == 200
        assert created.headers["access-control-allow-origin"] == origin
        assert created.headers["access-control-allow-credentials"] == "true"
        assert "Origin" in created.headers["vary"]

    async def test_its_preflight_is_answered(self, web):
        headers = {
            "Origin": "https://ui.example",
            "Access-Control-Request-Method": "PATCH",
            "Access-Control-Request-Headers": "content-type",
        }
        answer = await web.options(SESSIONS + "/s1", headers=headers)
        assert answer.status_code == 200
        assert "PATCH" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "content-type"

    @pytest.mark.parametrize(
        "origin",
        [
            "https://ui.example.evil.example",
            "https://a.trusted.example.evil.example",
            "https://atrusted.example",
            "http://ui.example",
        ],
    )
    async def test_similar_origin_is_refused(self, web, origin):
        answer = await web.get(SESSIONS, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers

    async def test_any_origin_may_be_allowed(self, web, settings):
        settings.DEVUI_ALLOW_ORIGINS = ["*"]
        answer = await web.get(SESSIONS, headers={"Origin": EVIL})
        assert answer.headers["access-control-allow-origin"] == EVIL


def test_host_of_an_allowed_origin_is_allowed():
    from devui.config import environment

    origins = ["https://proxy.example:8443", r"regex:https://.*\.example", "http://[::1]:3000"]
    assert environment.origin_hosts(origins) == ["proxy.example", "::1"]
    assert environment.origin_hosts(["*"]) == ["*"]


def test_invalid_origin_pattern_is_refused():
    from django.core.exceptions import ImproperlyConfigured

    from devui.web import origins

    with pytest.raises(ImproperlyConfigured, match=r"regex:\("):
        origins.parse_origins(("regex:(",))
