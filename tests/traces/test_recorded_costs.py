"""Costs of recorded runs on ADK's own Runner."""

from __future__ import annotations

from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from sessions_app.prices.session_usage import read_session_costs
from sessions_app.runs.run_usage import read_invocations_spending
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, NestedRun, Trace
from sessions_app.store.traces.outbox import outbox
from sessions_app.timeline.nested_runs import nested_usage, read_nested_runs
from tests.fake_models import ScriptedModel, call
from tests.prices.price_list import MILLION, PRICES


class Priced(ScriptedModel):
    """A model that reports tokens, and another version than the model that was asked."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=MILLION, candidates_token_count=MILLION, total_token_count=2 * MILLION
        )
        async for response in super().generate_content_async(llm_request, stream):
            yield LlmResponse(content=response.content, usage_metadata=usage, model_version="fast-001")


async def test_recorded_calls_have_the_price_of_the_model_that_was_asked(ask, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    (tmp_path / "prices.toml").write_text(PRICES)
    inner = LlmAgent(name="helper", model=Priced(model="fast", turns=["inside"]))
    outer = Priced(model="fast", turns=[call("helper", "c1", request="x"), "done"])
    await ask(LlmAgent(name="ann", model=outer, tools=[AgentTool(inner)]))
    await outbox().wait_written()

    def read() -> tuple[Any, ...]:
        session = AgentSession.objects.get(realm="")
        heads = read_nested_runs(session, Event.objects.filter(session=session).order_by("seq"))
        [of_trace] = read_invocations_spending(Trace.objects.values_list("session", "invocation_id")).values()
        of_nested = nested_usage(session)
        return (
            read_session_costs([session])[session.pk],
            heads[2][0][0],
            NestedRun.objects.select_related("child").get(),
            of_trace,
            of_nested,
        )

    session_cost, head, run, recorded, nested = await units_of_work.read(read)
    assert (recorded.cost.amount, nested) == (15, (2 * MILLION, head.cost))
    assert (session_cost.amount, session_cost.calls, session_cost.unpriced) == (10, 2, 0)
    assert (head.cost.amount, head.tokens) == (5, 2 * MILLION)
    assert run.child.total_tokens == 2 * MILLION
