"""Expected steps whose calls share an id."""

from __future__ import annotations

from evals_app.cases.expected_steps import expected_calls, with_steps


def test_removed_call_takes_only_its_own_result_with_it():
    def step(kind: str, **fields) -> dict:
        return {"author": "a", "content": {"parts": [{kind: {"id": "x", "name": "f", **fields}}]}}

    events = [
        step("function_call", args={"n": 1}),
        step("function_response", response={"n": 1}),
        step("function_call", args={"n": 2}),
        step("function_response", response={"n": 2}),
    ]
    data = {"invocation_events": events}
    updated = with_steps(data, expected_calls(data)[1:], [], "a")
    assert updated == {"invocation_events": events[2:]}
