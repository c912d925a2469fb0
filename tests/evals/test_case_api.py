"""/api/v1/evals: attempts of a run by pages, a new case."""

from __future__ import annotations

import json

from tests.evals.api_requests import get_json, post_json
from tests.evals.builders import case, turn
from tests.evals.conftest import wait_until_settled

NEW = {"app": "counter", "evalset": "smoke"}


async def test_attempts_are_listed_by_pages_and_status(web, process, smoke):
    order = {**NEW, "cases": ["good", "breaks"], "num_runs": 2}
    run = await post_json(web, "/runs", order, 202)
    await wait_until_settled()
    first = await get_json(web, f"/runs/{run['id']}/attempts?limit=3")
    rest = await get_json(web, f"/runs/{run['id']}/attempts?limit=3&after={first['next']}")
    assert [len(first["attempts"]), len(rest["attempts"]), rest["next"]] == [3, 1, None]
    broken = await get_json(web, f"/runs/{run['id']}/attempts?status=error")
    assert {attempt["case"] for attempt in broken["attempts"]} == {"breaks"}
    attempt = await get_json(web, f"/attempts/{first['attempts'][0]['id']}")
    assert (attempt["run"], attempt["expected"]["eval_id"]) == (run["id"], "good")
    await get_json(web, "/runs/nope/attempts", 404)
    await get_json(web, f"/runs/{run['id']}/attempts?status=odd", 422)


async def test_new_case_is_added_to_the_file(web, smoke):
    added = case("more", turn("Rome", "It is sunny."))
    assert await post_json(web, "/cases", {**NEW, "case": added}, 201) == {**NEW, "case": "more"}
    saved = json.loads(smoke.read_text())["eval_cases"]
    assert [row["eval_id"] for row in saved] == ["good", "bad <script>", "breaks", "more"]
    taken = await post_json(web, "/cases", {**NEW, "case": added}, 400)
    assert "already exists" in taken["detail"]
    invalid = await post_json(web, "/cases", {**NEW, "case": {"conversation": 1}}, 422)
    assert invalid["detail"][0]["loc"][0] == "body"
    await post_json(web, "/cases", {"app": "counter", "evalset": "nope", "case": added}, 404)
