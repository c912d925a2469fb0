"""Stages of invocations are written together, and all of them are stored."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent

from sessions_app.adk import invocation_log
from sessions_app.adk.invocation_log import InvocationLog
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Trace
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from sessions_app.store.traces import outbox, records
from sessions_app.store.traces.records import MAX_STAGES
from tests.fake_models import ScriptedModel

KEY = SessionKey("", "app", "ann", "s1")


@pytest.fixture(autouse=True)
def _patient_outbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written before the end of a run."""
    monkeypatch.setattr(outbox, "PAUSE_S", 60.0)


async def test_stages_of_a_short_run_are_one_write(ask, monkeypatch):
    stage_writes = []

    def save_stages(key: SessionKey, invocation_id: str, stages: list[Any], *rest: Any) -> bool:
        stage_writes.extend([len(stages)] if stages else [])
        return records.save_stages(key, invocation_id, stages, *rest)

    monkeypatch.setattr(invocation_log, "save_stages", save_stages)
    await ask(LlmAgent(name="ann", model=ScriptedModel.saying("hello")))

    trace = await units_of_work.read(Trace.objects.get)
    assert stage_writes == [len(trace.decoded_stages)]
    assert [trace.decoded_stages[0][0], trace.decoded_stages[-1][0]] == ["loaded", "end"]
    assert trace.finished_at == trace.decoded_stages[-1][1]


async def test_invocation_with_very_many_stages_has_the_first_ones_and_its_end(store):
    await units_of_work.write(writes.create_session, KEY)
    log = InvocationLog(KEY, "i1", "ann", keep_logs=False)
    for number in range(MAX_STAGES + 200):
        log.note_stage(f"stage {number}")
    await log.finish()

    trace = await units_of_work.read(Trace.objects.get)
    assert [name for name, *_ in trace.decoded_stages] == [f"stage {number}" for number in range(MAX_STAGES)]
    assert trace.finished_at is not None
