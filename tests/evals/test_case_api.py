"""/api/v1/evals/cases: an evalset's cases read, added, changed, copied and removed by programs."""

from __future__ import annotations

import json

import pytest

from evals_app.models import EvalSetVersion
from sessions_app.store import units_of_work
from tests.evals.builders import LEGACY, case, evalset, text, turn, write

pytestmark = pytest.mark.anywhere

API = "/api/v1/evals"
SET = "app=counter&evalset=set"
NEW = case("three", turn("three?", "yes"))


@pytest.fixture
def path(folder):
    document = evalset(case("one", turn("hi", "yo"), ours=1), case("two", turn("bye")), eval_set_id="set")
    return write(folder.given, "set.evalset.json", json.dumps(document, indent=2) + "\n")


@pytest.fixture
def ask(web, path):
    async def send(method, address, body=None, status=200, **headers):
        sent = {} if body is None else {"data": body, "content_type": "application/json"}
        response = await getattr(web, method)(f"{API}{address}", **sent, headers=headers)
        assert response.status_code == status, response.content.decode()[:2000]
        return json.loads(response.content) if response.content else None

    return send


def ids_in(path):
    return [one["eval_id"] for one in json.loads(path.read_text())["eval_cases"]]


async def test_cases_are_listed_with_all_fields(ask):
    one, two = await ask("get", f"/cases?{SET}")
    assert (one["id"], two["id"]) == ("one", "two")
    assert one["case"]["ours"] == 1
    assert await ask("get", f"/case?{SET}&id=one") == one


async def test_a_case_is_added_at_the_end(ask, path):
    made = await ask("post", f"/cases?{SET}", NEW, 201)
    assert ids_in(path) == ["one", "two", "three"]
    assert made == await ask("get", f"/case?{SET}&id=three")
    version = await units_of_work.read(EvalSetVersion.objects.order_by("pk").last)
    assert version.origin == "api"


async def test_existing_id_is_refused(ask, path):
    before = path.read_bytes()
    for address, body in (
        (f"/cases?{SET}", case("one", turn("again"))),
        (f"/case/copy?{SET}&id=two", {"id": "one"}),
    ):
        assert (await ask("post", address, body, 409))["code"] == "already_exists"
    refused = await ask("put", f"/case?{SET}&id=two", case("one", turn("again")), 409)
    assert "has a case 'one' already" in refused["detail"]
    assert path.read_bytes() == before


async def test_changed_answer_changes_one_line_of_the_file(ask, path):
    before = path.read_text()
    found = await ask("get", f"/case?{SET}&id=one")
    found["case"]["conversation"][0]["final_response"] = text("good day", "model")
    made = await ask("put", f"/case?{SET}&id=one", found["case"], **{"If-Match": found["etag"]})
    assert path.read_text() == before.replace('"yo"', '"good day"')
    assert made["etag"] != found["etag"]
    assert made["etag"] == (await ask("get", f"/case?{SET}&id=one"))["etag"]


async def test_a_case_gets_another_id_in_its_place(ask, path):
    await ask("put", f"/case?{SET}&id=one", case("first", turn("hi")))
    assert ids_in(path) == ["first", "two"]


@pytest.mark.parametrize("method", ["put", "delete"])
async def test_concurrently_changed_case_is_not_overwritten(ask, path, method):
    found = await ask("get", f"/case?{SET}&id=one")
    path.write_text(path.read_text().replace('"yo"', '"theirs"'))
    before = path.read_bytes()
    body = found["case"] if method == "put" else None
    refused = await ask(method, f"/case?{SET}&id=one", body, 409, **{"If-Match": found["etag"]})
    assert path.read_bytes() == before
    assert refused["code"] == "case_changed"
    told = refused["detail"]
    assert told["if_match"] == found["etag"]
    assert told["case"]["conversation"][0]["final_response"]["parts"][0]["text"] == "theirs"
    await ask(method, f"/case?{SET}&id=one", body, 200 if body else 204, **{"If-Match": told["etag"]})


async def test_a_change_of_another_case_meanwhile_is_no_conflict(ask, path):
    found = await ask("get", f"/case?{SET}&id=one")
    path.write_text(path.read_text().replace('"bye"', '"theirs"'))
    await ask("put", f"/case?{SET}&id=one", case("one", turn("ours")), **{"If-Match": found["etag"]})
    assert '"theirs"' in path.read_text()
    assert '"ours"' in path.read_text()


async def test_a_case_is_copied_and_removed(ask, path):
    assert (await ask("post", f"/case/copy?{SET}&id=one", {}, 201))["id"] == "one-2"
    assert (await ask("post", f"/case/copy?{SET}&id=one", {"id": "mine"}, 201))["case"]["ours"] == 1
    await ask("delete", f"/case?{SET}&id=one", status=204)
    assert ids_in(path) == ["two", "one-2", "mine"]


async def test_invalid_case_names_field_line_and_column(ask, path):
    before = path.read_bytes()
    wrong = '{"eval_id": "x",\n "conversation": [{"user_content": {"parts": [{"txt": "hi"}]}}]}'
    for method, address in (("post", f"/cases?{SET}"), ("put", f"/case?{SET}&id=one")):
        refused = await ask(method, address, wrong, 400)
        problem = refused["detail"][0]
        assert (problem["file"], problem["line"]) == ("case", 2)
        assert problem["field"] == "conversation[0].user_content.parts[0].txt"
        assert problem["column"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_non_json_number_is_refused_anywhere(ask, path, number):
    before = path.read_bytes()
    wrong = json.dumps(case("x", turn("hi"), ours=["here"])).replace('"here"', f"\n  {number}")
    for method, address in (("post", f"/cases?{SET}"), ("put", f"/case?{SET}&id=one")):
        problem = (await ask(method, address, wrong, 400))["detail"][0]
        assert (problem["field"], problem["line"], problem["column"]) == ("ours[0]", 2, 3)
        assert "a number that JSON has" in problem["what"]
    assert path.read_bytes() == before


async def test_unstorable_text_is_refused(ask):
    refused = await ask("post", f"/cases?{SET}", case("a\0b", turn("hi")), 400)
    assert "NUL" in refused["detail"][0]["what"]
    assert "NUL" in (await ask("get", f"/case?{SET}&id=%00", status=400))["detail"]


async def test_a_body_in_another_encoding_of_json_is_read_as_any_other(ask, path):
    await ask("post", f"/cases?{SET}", json.dumps(NEW).encode("utf-16"), 201)
    assert ids_in(path)[-1] == "three"


@pytest.mark.parametrize(
    "address", [f"/case?{SET}&id=none", "/cases?app=counter&evalset=none", "/cases?app=nobody&evalset=set"]
)
async def test_missing_case_is_404(ask, address):
    assert (await ask("get", address, status=404))["hint"]


async def test_unreadable_file_returns_the_reason(ask, path):
    path.write_text("{")
    assert "set.evalset.json:1:2" in (await ask("get", f"/cases?{SET}", status=400))["detail"]


async def test_legacy_file_is_read_in_current_form_and_not_extended(ask, folder):
    write(folder.given, "old.evalset.json", LEGACY)
    old = "app=counter&evalset=old"
    first = (await ask("get", f"/cases?{old}"))[0]
    assert first["case"]["conversation"]
    rubric = {"rubric_id": "r", "rubric_content": {"text_property": "polite"}}
    refused = await ask("put", f"/case?{old}&id={first['id']}", {**first["case"], "rubrics": [rubric]}, 400)
    assert "older form" in refused["detail"]
