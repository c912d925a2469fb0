"""First deviation of an attempt from the expected calls: its event, and the state at that event."""

from __future__ import annotations

from evals_app.analysis import attempt_detail
from sessions_app.adk import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.scopes import EVALUATION_KEY
from tests.evals import builders, stored_runs
from tests.sessions.build import event


async def test_missing_call_shows_state_at_turn_end_without_eval_keys(
    store,
):
    service = DjangoSessionService()
    session = await service.create_session(app_name="counter", user_id="ann", session_id="s", state={"n": 1})
    for number, delta in ((1, {"n": 2, EVALUATION_KEY: "an id"}), (2, {"n": 3})):
        await service.append_event(session, event("hi", delta, author="counter", invocation_id=f"i{number}"))

    def moment():
        turns = [{**builders.turn("Paris", "Sunny."), "invocation_id": "i1"}]
        outcome = stored_runs.Outcome("failed", actual=turns, session_pk=AgentSession.objects.get().pk)
        run = stored_runs.run(stored_runs.version(stored_runs.cases("a")), {"a": [outcome]})
        return attempt_detail.detail(run.attempts.select_related("run__version").get()).moment

    divergence = await units_of_work.write(moment)
    assert (divergence.turn, divergence.seq, divergence.pair.name) == (1, 1, "get_weather")
    assert divergence.state == {"n": 2}
