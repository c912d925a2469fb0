"""Runs on forks: on live state, or in their own realm."""

from __future__ import annotations

import pytest

from sessions_app.branches.fork import NewFork, fork
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, Run, UserState
from sessions_app.store.state import history as history
from tests.runtime.conftest import Stage

Status = Run.Status

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def create_fork(stage: Stage, *, own_realm: bool) -> AgentSession:
    """Return a fork of a session in which `user:n` was 1."""
    session = await stage.session("talker")
    await stage.end_of(await stage.start(session, "say one", state_delta={"user:n": 1}))
    return await units_of_work.write(fork, session.pk, NewFork(own_realm=own_realm))


def texts(session: AgentSession) -> list[tuple[int, str]]:
    return list(Event.objects.filter(session=session).order_by("seq").values_list("seq", "author"))


@pytest.mark.parametrize("own_realm", [False, True])
async def test_fork_continues_at_its_event(stage: Stage, own_realm: bool):
    session = await create_fork(stage, own_realm=own_realm)
    ended = await stage.end_of(await stage.start(session, "say two"))
    assert (ended.status, ended.error) == (Status.DONE, "")
    assert (ended.first_seq, ended.last_seq) == (2, 4)
    assert await units_of_work.read(texts, session) == [
        (1, "user"),
        (2, "talker"),
        (3, "user"),
        (4, "talker"),
    ]


async def test_a_run_in_a_realm_of_its_own_writes_there_and_not_to_real_life(stage: Stage):
    session = await create_fork(stage, own_realm=True)
    await stage.end_of(await stage.start(session, "say two", state_delta={"user:n": 2}))

    def values() -> dict[str, str]:
        rows = UserState.objects.filter(owner__app_name="talker", key="n")
        return {row.owner.realm: row.value for row in rows.select_related("owner")}

    result = await units_of_work.read(values)
    assert (result[""], result[session.realm]) == ("1", "2")
    await units_of_work.read(session.refresh_from_db)
    assert (await units_of_work.read(history.state_at, session)).merge_scopes()["user:n"] == 2


async def test_failure_in_own_realm_is_reported_in_its_session(stage: Stage):
    session = await create_fork(stage, own_realm=True)
    ended = await stage.end_of(await stage.start(session, "call nothing ["))
    assert ended.status == Status.FAILED
    assert (await units_of_work.read(texts, session))[-1][1] == "talker"
    kind = await units_of_work.read(lambda: Event.objects.filter(session=session).order_by("-seq")[0].kind)
    assert kind == "error"


async def test_an_eval_attempt_is_not_continued(stage: Stage):
    session = await create_fork(stage, own_realm=True)
    await units_of_work.write(lambda: AgentSession.objects.filter(pk=session.pk).update(realm="eval/1"))
    ended = await stage.end_of(await stage.start(session, "say two"))
    assert ended.status == Status.FAILED
    assert "eval attempt" in ended.error
