"""Invisible characters in evalsets and answers are shown on pages of evals and in exports."""

from __future__ import annotations

from urllib.parse import quote

from evals_app import live
from evals_app.models import EvalAttempt
from sessions_app.store.database import units_of_work
from tests.evals import agents
from tests.evals.builders import case, evalset, turn, write
from tests.invisible_characters import EVIL, assert_shown

CALL = [{"name": EVIL, "args": {EVIL: EVIL}}]
SCENARIO = {"starting_prompt": EVIL, "conversation_plan": EVIL}


def answer(ctx, text):
    if text == "break":
        raise RuntimeError(EVIL)
    return [agents.calls(EVIL, **{EVIL: "other" + EVIL}), f"No {EVIL}"]


DOCUMENT = {
    **evalset(
        case(
            EVIL,
            turn(EVIL, EVIL, CALL),
            session_input={"app_name": "x", "user_id": "u", "state": {EVIL: EVIL}},
        ),
        case("break" + EVIL, turn("break", EVIL)),
        {"eval_id": "plan" + EVIL, "conversation_scenario": SCENARIO},
    ),
    "name": EVIL,
    "description": EVIL,
}


async def test_eval_pages_show_invisible_characters(web, play):
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}
    run = await play(DOCUMENT, answer, criteria, num_runs=2, case_ids=[EVIL, "break" + EVIL])
    attempts = await units_of_work.read(lambda: list(EvalAttempt.objects.filter(run=run)))
    assert {attempt.status for attempt in attempts} >= {"failed", "error"}
    address = f"/evals/runs/{run.id}/"
    pages = [
        "/evals/",
        *(f"/evals/counter/set/?case={n}" for n in range(3)),
        address,
        *(f"{address}?attempt={attempt.pk}" for attempt in attempts),
        *(f"/sessions/id/{attempt.session_id}/" for attempt in attempts),
        f"{address}export/html/",
    ]
    for page in pages:
        response = await web.get(page)
        assert response.status_code == 200, page
        assert_shown(response.content.decode(), page)
    message = await units_of_work.read(live.changes, run.id, 0)
    for row in message["rows"]:
        assert_shown(row["html"], "a row by the socket")
    assert_shown(message["summary"], "the summary by the socket")


async def test_evalset_forms_show_invisible_characters(web, folder):
    write(folder.path, "set.evalset.json", DOCUMENT)
    case_id, plan = quote(EVIL), quote("plan" + EVIL)
    for page in (
        f"case/?id={case_id}",
        f"case/?id={plan}",
        f"case/?copy={case_id}&view=json",
        "versions/",
        f"versions/?case={case_id}",
        f"change/?action=remove&id={case_id}",
        "delete/",
    ):
        response = await web.get(f"/evals/counter/set/{page}")
        assert response.status_code == 200, page
        assert_shown(response.content.decode(), page)
    html = (await web.get(f"/evals/counter/set/case/?id={case_id}")).content.decode()
    assert "Contains invisible characters" in html


async def test_problems_of_broken_file_show_invisible_characters(web, folder):
    write(
        folder.path, "broken.evalset.json", {"eval_set_id": "x", "eval_cases": [{"eval_id": EVIL, EVIL: 1}]}
    )
    for page in ("/evals/", "/evals/counter/broken/"):
        assert_shown((await web.get(page)).content.decode(), page)
