"""Variants that the API orders: their runs beside the original's, and refusals before anything is ordered."""

from __future__ import annotations

import pytest

from evals_app.models import EvalRun
from sessions_app.store.database import units_of_work
from tests.evals.api_requests import get_json, post_json
from tests.evals.conftest import wait_until_settled

ORDER = {"app": "counter", "evalset": "smoke", "cases": ["good"]}


def described(text: str, name: str = "v") -> dict[str, object]:
    """Return a variant that describes the agent otherwise."""
    return {"name": name, "note": "", "agents": {"counter": {"description": text}}}


async def test_order_with_variants_names_their_runs(web, process, smoke):
    variants = [described("short", "one"), described("long", "two")]
    run = await post_json(web, "/runs", {**ORDER, "num_runs": 2, "variants": variants}, 202)
    assert [variant["name"] for variant in run["variants"]] == ["one", "two"]
    await wait_until_settled()
    read = await get_json(web, f"/runs/{run['id']}")
    assert [variant["status"] for variant in read["variants"]] == ["done", "done"]
    first = await get_json(web, f"/runs/{read['variants'][0]['run']}")
    assert first["variant"]["agents"] == variants[0]["agents"]
    assert (first["variant"]["original_run"], first["num_runs"]) == (run["id"], 2)
    assert first["variants"] == []


async def test_order_without_variants_asks_no_process_for_a_check(web, process, smoke):
    run = await post_json(web, "/runs", ORDER, 202)
    assert run["variants"] == []
    assert process.asked == [("POST", "/devui/evals")]


UNKNOWN_AGENT = {"name": "v", "agents": {"contour": {"description": "x"}}}
UNKNOWN_FIELD = {"name": "w", "agents": {"counter": {"instruction": "x"}}}


@pytest.mark.parametrize(
    ("variants", "message", "hint"),
    [
        ([UNKNOWN_AGENT], "there is no agent 'contour'", "Agents of counter: counter."),
        (
            [described("a"), UNKNOWN_FIELD],
            "has no field 'instruction'",
            "may replace: description, sub_agents.",
        ),
        ([described("a"), described("b")], "Two variants have the name 'v'.", "Give each a name of its own."),
        ([described("a", "1"), described("a", "2")], "'1' and '2' make the same changes", "Leave out one"),
        ([described(str(n), str(n)) for n in range(5)], "at most 4 can be compared", "several runs"),
        ([described("a"), {"name": "w"}], "variants[1]: agents: is required", "name, note and agents"),
        ([{**described("a"), "agent": 1}], "variants[0]: agent: is no known field", "name, note and agents"),
        ([described("x" * 200_001)], "more than 200,000: shorten its texts", ""),
        ([described("a"), described("\ud800", "b")], "variants[1]: cannot be read: ", ""),
    ],
)
async def test_variants_that_cannot_be_compared_are_refused_before_anything_is_ordered(
    web, process, smoke, variants, message, hint
):
    refusal = await post_json(web, "/runs", {**ORDER, "variants": variants}, 400)
    assert message in refusal["detail"]
    assert hint in refusal["hint"]
    assert not await units_of_work.read(EvalRun.objects.exists)


async def test_invalid_order_with_variants_is_refused_before_anything_is_ordered(web, process, smoke):
    variants = [described("a")]
    await post_json(web, "/runs", {**ORDER, "evalset": "none", "variants": variants}, 404)
    assert process.asked == []
    await post_json(web, "/runs", {**ORDER, "cases": ["none"], "variants": variants}, 404)
    await post_json(web, "/runs", {**ORDER, "num_runs": 0, "variants": variants}, 400)
    await post_json(web, "/runs", {**ORDER, "variants": variants[0]}, 422)
    assert not await units_of_work.read(EvalRun.objects.exists)
