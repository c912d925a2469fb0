"""Errors have one shape and a hint, and show no traceback."""

from __future__ import annotations

from devui.web import error_responses
from sessions_app.store.errors import BadInput
from tests.pages.html import parse
from tests.security.routes import addresses

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
GARBAGE = {"Content-Type": "application/json"}


NO_PAGES = {*error_responses.API_ROOTS, "dev-ui"}
"""First segments of addresses that are no pages; ADK's files have types of their own."""


def root_of(address):
    return address.strip("/").split("/")[0]


async def refusals(web, question, **headers):
    """Yield what addresses answer each method with a body that means nothing, on an empty store."""
    for address in question:
        for method in METHODS:
            answer = await web.request(method, address, content="[null", headers={**GARBAGE, **headers})
            where = (method, address, answer.status_code, answer.text[:200])
            assert answer.status_code != 500, where
            if answer.status_code >= 400:
                yield root_of(address), answer, where


async def test_all_endpoints_return_errors_in_the_same_shape(web):
    statuses = set()
    endpoints = [address for address in addresses() if root_of(address) in NO_PAGES]
    async for root, answer, where in refusals(web, endpoints):
        if root not in error_responses.API_ROOTS:
            continue
        statuses.add(answer.status_code)
        assert answer.headers["content-type"] == "application/json", where
        if where[:2] == ("POST", "/mcp"):  # MCP's clients read JSON-RPC
            assert answer.json().keys() == {"jsonrpc", "id", "error"}, where
            continue
        assert answer.json().keys() == {"detail", "code", "hint"}, where
        assert answer.json()["code"], where
        assert answer.json()["hint"], where
    assert {400, 404, 405, 422, 503} <= statuses


async def test_every_page_shows_errors_in_its_alert(web):
    statuses = set()
    pages = [address for address in addresses() if root_of(address) not in NO_PAGES]
    async for _, answer, where in refusals(web, pages, Accept="text/html"):
        statuses.add(answer.status_code)
        assert answer.headers["content-type"].startswith("text/html"), where
        at_a_field = answer.status_code == 422 and 'aria-invalid="true"' in answer.text
        assert at_a_field or "data-error-message" in answer.text, where
        assert "Traceback" not in answer.text, where
    assert {404, 405} <= statuses


async def test_malformed_form_is_refused_without_an_error_log(web, caplog):
    without_boundary = {"content": b"user=u", "headers": {"Content-Type": "multipart/form-data"}}
    for path in ("/sessions/new/", "/memory/add/", "/artifacts/upload/"):
        answer = await web.post(path, **without_boundary)
        assert answer.status_code == 400, (path, answer.text[:200])
        assert "The request is malformed." in answer.text
    assert not [record for record in caplog.records if record.name == "devui.web.error_responses"]


async def test_invalid_number_is_a_client_error(store, web):
    state = f'{{"n": {"9" * 5000}}}'
    parameters = {"content": f'{{"state": {state}, "stateDelta": {state}}}', "headers": GARBAGE}
    for path in ("/run", "/run_sse", "/apps/a/users/u/sessions", "/dev/apps/a/eval-sets"):
        answer = await web.post(path, **parameters)
        assert answer.status_code == 400, (path, answer.text[:200])
        assert answer.json()["detail"] == "There was an error parsing the body"
    assert (await web.patch("/apps/a/users/u/sessions/s", **parameters)).status_code == 400
    form = await web.post("/sessions/new/", data={"app": "a", "user": "u", "state": state})
    assert form.status_code == 422
    assert "number that is too large" in form.text


async def test_programs_get_json_errors_everywhere(web):
    for path in ("/nothing/", "/api/v1/nothing", "/apps/x"):
        program = await web.get(path, headers={"Accept": "application/json"})
        assert program.status_code == 404
        assert program.json()["code"] == "not_found"


async def test_a_person_is_shown_a_page_and_htmx_a_fragment(web):
    page = await web.get("/nothing/", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "<!doctype html>" in page.text.lower()
    assert "Not Found" in parse(page.text).one(css="problem").text
    fragment = await web.get("/nothing/", headers={"Accept": "*/*", "HX-Request": "true"})
    assert fragment.status_code == 404
    assert "<html" not in fragment.text
    assert "data-error-message" in fragment.text


async def test_error_pages_show_no_error_codes(store, web):
    for path in (
        "/nothing/",
        "/sessions/a/u/nope/",
        "/sessions/id/9999/",
        "/agents/nope/",
        "/evals/runs/nope/",
    ):
        page = await web.get(path, headers={"Accept": "text/html"})
        text = parse(page.text).one(css="problem").text
        assert page.status_code == 404, path
        assert "404" in text, path
        assert "Not Found" in text, path
        assert "_not_found" not in text, path


async def test_refused_form_links_back_to_its_page_only(store, web):
    host = str(web.base_url.host)
    form = {"app": "weather", "user": "ann", "session": "none", "name": "none"}
    for referer, ways_on in (
        (f"http://{host}/artifacts/?app=weather", ["/artifacts/?app=weather"]),
        ("http://elsewhere.example/artifacts/", ["/"]),
        (f"http://{host}//elsewhere.example/", ["/"]),
        ("http://[", ["/"]),
        ("", ["/"]),
    ):
        headers = {"Accept": "text/html", "Referer": referer}
        answer = await web.post("/artifacts/delete/", data=form, headers=headers)
        assert answer.status_code in {400, 404}, answer.text[:300]
        links = parse(answer.content).one(css="problem").all("a")
        assert [link.attrs["href"] for link in links] == ways_on, referer


async def test_unexpected_error_is_logged_and_not_shown(web, monkeypatch, caplog):
    from sessions_app.api import snapshots

    def broken(app_name: str, user_id: str) -> str:
        raise RuntimeError("a secret of the machine")

    monkeypatch.setattr(snapshots, "sessions_json", broken)
    answer = await web.get("/apps/weather/users/ann/sessions")
    assert answer.status_code == 500
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "a secret of the machine" in caplog.text


async def test_error_page_escapes_names(web):
    page = await web.get("/nothing/<script>alert(1)</script>/", headers={"Accept": "text/html"})
    assert "<script>alert" not in page.text


def test_an_error_of_ours_carries_its_status_and_hint(rf):
    request = rf.get("/list-apps")
    answer = error_responses.error_response(request, BadInput("No.", hint="Yes."))
    assert answer.status_code == 400
    assert answer.content == b'{"detail": "No.", "code": "bad_input", "hint": "Yes."}'
