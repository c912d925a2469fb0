"""Roles in single apps."""

from __future__ import annotations

import io

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.core.management.base import CommandError

from devui.accounts import targets, users
from devui.accounts.models import AuditEntry
from evals_app.models import EvalSet, Optimisation
from evals_app.optimisation.settings import OptimiserSettings
from sessions_app.console.sign_in_cookies import PendingSignIn, cookie_name
from sessions_app.roles import Role
from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import BROWSER, PASSWORD, cookie_of
from tests.api.builders import append, create

SETTINGS = OptimiserSettings("simple", "no-model", ("a",), ("b",)).as_json()

pytestmark = pytest.mark.usefixtures("people", "agents_dir")


@sync_to_async
def cookies_of_weather_runner() -> dict[str, str]:
    users.create_user("cleo", Role.RUNNER, PASSWORD, ["weather"])
    return cookie_of("cleo")


async def session_of(app: str) -> int:
    return (await units_of_work.write(writes.create_session, SessionKey("", app, "ann", "s1"))).pk


def create_ended_optimisation(app: str) -> Optimisation:
    evalset = EvalSet.objects.create(app_name=app, evalset_id="ended")
    version = evalset.versions.create(digest="1", content="{}", created_at=1.0)
    return evalset.optimisations.create(
        id=f"of-{app}", version=version, status=Optimisation.Status.DONE, settings=SETTINGS, created_at=1.0
    )


@pytest.mark.parametrize(("app", "is_allowed"), [("weather", True), ("writer", False)])
async def test_role_applies_to_objects_of_its_app(web, app, is_allowed):
    web.cookies.update(await cookies_of_weather_runner())
    pk = await session_of(app)
    optimisation = await units_of_work.write(create_ended_optimisation, app)
    requests = [
        ("POST", f"/sessions/id/{pk}/rename/", {"data": {"title": "x"}}),
        ("PATCH", f"/api/v1/sessions/{pk}", {"json": {"title": "x"}}),
        ("POST", f"/apps/{app}/users/ann/sessions", {"json": {}}),
        ("POST", "/api/v1/runs", {"json": {"session": pk, "message": "x"}}),
        ("POST", "/run", {"json": {"appName": app}}),
        ("POST", "/run_sse", {"json": {"app_name": app}}),
        ("POST", "/run", {"json": {"appName": app, "app_name": "weather"}}),
        ("POST", "/sessions/new/", {"data": {"app": app, "user": ""}}),
        ("POST", "/memory/add/", {"data": {"app": app}}),
        ("POST", "/artifacts/upload/", {"data": {"app": app}, "files": {"file": ("a.txt", b"x")}}),
        ("POST", "/evals/new/", {"data": {"app": app}}),
        ("POST", "/evals/upload/", {"data": {"app": app}}),
        ("POST", "/api/v1/evals/runs", {"json": {"app": app}}),
        ("POST", f"/evals/{app}/none/variants/", {"data": {"action": "run"}}),
        ("POST", f"/evals/{app}/none/variants/", {"data": {"action": "add"}}),
        ("POST", f"/evals/{app}/none/optimise/", {"data": {"action": "run"}}),
        ("POST", f"/evals/optimisations/{optimisation.pk}/cancel/", {}),
        ("POST", f"/evals/optimisations/{optimisation.pk}/resume/", {}),
    ]
    for method, path, body in requests:
        response = await web.request(method, path, headers=BROWSER, **body)
        assert (response.status_code != 403) is is_allowed, (path, response.text)
    assert (await web.get(f"/sessions/id/{pk}/")).status_code in {200, 302}
    apps = await sync_to_async(lambda: set(AuditEntry.objects.values_list("app", flat=True)))()
    assert apps == {app}


async def test_refusal_tells_how_to_get_the_role_in_the_app(web):
    web.cookies.update(await cookies_of_weather_runner())
    pk = await session_of("writer")
    refused = (await web.patch(f"/api/v1/sessions/{pk}", json={"title": "x"}, headers=BROWSER)).json()
    assert (
        refused["detail"]
        == "This needs the role runner in the app writer; cleo has the role reader in the app writer."
    )
    assert refused["hint"] == (
        "An admin can change it: `python manage.py changeuser cleo --role runner --app writer`."
    )


async def test_fork_needs_the_role_in_the_app_of_the_fork(web):
    web.cookies.update(await cookies_of_weather_runner())
    session = await create()
    await append(session, "e1")
    pk = session.pk
    form = {"seq": "1", "user": "ann", "session_id": "", "title": "", "shared": "live"}
    for app, status in (("writer", 403), ("weather", 302)):
        page = await web.post(f"/sessions/id/{pk}/fork/", data=form | {"app": app}, headers=BROWSER)
        assert page.status_code == status, page.text
    for body, status in (({"app": "writer"}, 403), ({"app": "weather"}, 201), ({}, 201)):
        answer = await web.post(f"/api/v1/sessions/{pk}/fork", json={"seq": 1, **body}, headers=BROWSER)
        assert answer.status_code == status, answer.text


async def test_fork_with_an_unreadable_body_needs_the_role_everywhere(web):
    web.cookies.update(await cookies_of_weather_runner())
    pk = await session_of("weather")
    deep = b'{"title": ' + b"[" * 100_000 + b"]" * 100_000 + b', "title": "", "app": "writer"}'
    for body in (
        b"{",
        deep,
    ):  # whether a nested body can be read depends on the depth of the stack that reads it
        refused = await web.post(f"/api/v1/sessions/{pk}/fork", content=body, headers=BROWSER)
        assert refused.status_code == 403, refused.text


@pytest.mark.parametrize("run_id", ["a\0", "\ud800"])
def test_app_of_an_object_that_cannot_exist_is_empty(run_id, django_assert_num_queries):
    with django_assert_num_queries(0):  # which PostgreSQL would refuse
        assert targets.find_app("runs/<str:run_id>/again/", {"run_id": run_id}) == ""


async def test_end_of_an_oauth_sign_in_needs_the_role_in_the_app_of_its_session(web):
    web.cookies.update(await cookies_of_weather_runner())
    for app, status in (("weather", 404), ("writer", 403)):  # 404: its call does not wait any more
        sign_in = PendingSignIn(await session_of(app), "call", "http://127.0.0.1/runs/signed-in/")
        web.cookies.set(cookie_name(app), sign_in.as_cookie())
        response = await web.get(f"/runs/signed-in/?state={app}&code=c", headers=BROWSER)
        assert response.status_code == status, response.text
    assert (await web.get("/runs/signed-in/?state=unknown&code=c", headers=BROWSER)).status_code == 403
    apps = await sync_to_async(
        lambda: list(AuditEntry.objects.order_by("pk").values_list("app", flat=True))
    )()
    assert apps == ["weather", "writer", ""]


async def test_request_without_an_app_needs_the_role_everywhere(web):
    web.cookies.update(await cookies_of_weather_runner())
    pk = await session_of("weather")
    form = {"action": "tag", "session": str(pk), "tag": "x"}
    headers = {**BROWSER, "Accept": "application/json"}
    refused = await web.post("/sessions/actions/", data=form, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["hint"].endswith("--role runner`, which replaces the roles in single apps.")
    assert (await web.post("/run", json={}, headers=BROWSER)).status_code == 403
    assert (await web.post("/run", content=b"{", headers=BROWSER)).status_code == 403
    assert (await web.post(f"/sessions/id/{pk}/delete/", headers=BROWSER)).status_code == 403


def test_commands_set_roles_of_apps(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    call_command("createuser", "cleo", role="runner", app=["weather", "writer"], stdout=io.StringIO())
    assert roles_of("cleo") == {"": "reader", "weather": "runner", "writer": "runner"}
    call_command("changeuser", "cleo", role="admin", app=["writer"], stdout=io.StringIO())
    assert roles_of("cleo") == {"": "reader", "weather": "runner", "writer": "admin"}
    call_command("changeuser", "cleo", role="runner", stdout=io.StringIO())
    assert roles_of("cleo") == {"": "runner"}


def test_empty_app_is_refused(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    for command, name in (("changeuser", "admin"), ("changeuser", "reader"), ("createuser", "cleo")):
        with pytest.raises(CommandError, match="The name of an app is empty"):
            call_command(command, name, role="runner", app=[""], stdout=io.StringIO())
    assert roles_of("admin") == {"": "admin"}
    assert roles_of("reader") == {"": "reader"}
    assert "cleo" not in users.list_names()


def roles_of(name: str) -> dict[str, str]:
    return {row.app: row.get_role_display() for row in users.find_user(name).memberships.all()}
