"""ADK's own paths of evals: its front end works with evalset files and DevUI's runs, without loss."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.adk.cli.dev_server import RunEvalResponse
from google.adk.evaluation.eval_case import EvalCase
from google.adk.evaluation.eval_metrics import MetricInfo
from google.adk.evaluation.eval_result import EvalSetResult
from google.adk.evaluation.eval_set import EvalSet

from evals_app.models import EvalRun
from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.writes import create_session, edit_state
from tests.evals import builders
from tests.evals.conftest import Process

DEV = "/dev/apps/counter"
MATCH = {"metricName": "response_match_score", "threshold": 0.5}


async def request_json(web, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    """Return what the server answers to a request of ADK's front end."""
    options = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    answer = await getattr(web, method)(f"{DEV}{path}", **options)
    assert answer.status_code == status, answer.content.decode()[:2000]
    return answer.json()


async def test_evalsets_are_created_listed_and_removed(web, folder):
    assert await request_json(web, "get", "/eval_sets") == []
    response = await request_json(
        web, "post", "/eval-sets", {"eval_set": {"eval_set_id": "new", "eval_cases": []}}
    )
    assert EvalSet.model_validate(response).eval_set_id == "new"
    assert EvalSet.model_validate_json((folder.path / "new.evalset.json").read_text()).eval_cases == []
    await request_json(web, "post", "/eval_sets/with-hyphen")
    assert await request_json(web, "get", "/eval_sets") == ["new", "with-hyphen"]
    assert await request_json(web, "get", "/eval-sets") == {"evalSetIds": ["new", "with-hyphen"]}
    assert await request_json(web, "get", "/eval_sets/new/evals") == []
    assert await request_json(web, "delete", "/eval-sets/new") is None
    assert await request_json(web, "get", "/eval_sets") == ["with-hyphen"]
    assert not (folder.path / "new.evalset.json").exists()


@pytest.mark.parametrize("name", ["", "a b", "../up", "x" * 101, "a/b", "set."])
async def test_an_evalset_needs_a_name_that_a_file_can_have(web, folder, name):
    refused = await request_json(web, "post", "/eval-sets", {"eval_set": {"eval_set_id": name}}, 400)
    assert refused["detail"].startswith("Invalid Eval Set ID")
    assert [path.name for path in folder.path.iterdir()] == ["agent.py"]


async def test_existing_evalset_is_not_created_again(web, smoke):
    before = smoke.read_bytes()
    refused = await request_json(web, "post", "/eval-sets", {"eval_set": {"eval_set_id": "smoke"}}, 400)
    assert "already exists" in refused["detail"]
    assert smoke.read_bytes() == before


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "/eval_sets/none/evals", 400),
        ("get", "/eval_sets/none/evals/good", 404),
        ("get", "/eval_sets/smoke/evals/none", 404),
        ("delete", "/eval_sets/smoke/evals/none", 404),
        ("delete", "/eval-sets/none", 404),
        ("get", "/eval_results/none", 404),
        ("get", "/eval-results/counter_smoke_1.0", 404),
        ("get", "/eval-results/..%2f..%2fagent", 404),
        ("get", "/../nobody/eval_sets", 404),
    ],
)
async def test_missing_objects_are_404(web, smoke, method, path, status):
    assert (await request_json(web, method, path, status=status))["detail"]


async def test_a_case_is_read_in_adks_form(web, smoke):
    assert await request_json(web, "get", "/eval_sets/smoke/evals") == ["bad <script>", "breaks", "good"]
    for path in ("/eval_sets/smoke/evals/good", "/eval-sets/smoke/eval-cases/good"):
        case = EvalCase.model_validate(await request_json(web, "get", path))
        assert case.conversation is not None
        assert case.conversation[0].user_content.parts[0].text == "Paris"
    whole = EvalSet.model_validate(await request_json(web, "get", "/eval-sets/smoke"))
    assert [case.eval_id for case in whole.eval_cases] == ["good", "bad <script>", "breaks"]


async def test_edit_keeps_fields_that_the_editor_does_not_show(web, folder):
    rubric = {"rubric_id": "r", "rubric_content": {"text_property": "polite"}}
    turn = {**builders.turn("hi", "hello"), "rubrics": [rubric]}
    extra_fields = {
        "rubrics": [{**rubric, "rubric_id": "other"}],
        "final_session_state": {"n": 1},
        "team": "ours",
    }
    path = builders.write(
        folder.path,
        "set.evalset.json",
        builders.evalset(
            builders.case("one", turn, **extra_fields), builders.case("two", builders.turn("x"))
        ),
    )
    eval_case = await request_json(web, "get", "/eval_sets/set/evals/one")
    edited_case = {name: eval_case[name] for name in ("evalId", "conversation")}
    del edited_case["conversation"][0]["rubrics"]
    edited_case["conversation"][0]["finalResponse"]["parts"][0]["text"] = "good day"
    assert await request_json(web, "put", "/eval_sets/set/evals/one", edited_case) is None
    first, two = json.loads(path.read_text())["eval_cases"]
    assert first["conversation"][0]["final_response"]["parts"][0]["text"] == "good day"
    assert first["conversation"][0]["rubrics"][0]["rubric_id"] == "r"
    assert {name: first[name] for name in ("final_session_state", "team")} == {
        "final_session_state": {"n": 1},
        "team": "ours",
    }
    assert first["rubrics"][0]["rubric_content"] == {"text_property": "polite"}
    assert two == builders.case("two", builders.turn("x"))


async def test_edited_scenario_remains_a_scenario(web, folder):
    scenario = {"starting_prompt": "hi", "conversation_plan": "leave"}
    case = {"eval_id": "one", "conversation_scenario": scenario}
    path = builders.write(folder.path, "set.evalset.json", builders.evalset(case))
    start = {"appName": "counter", "userId": "ann", "state": {"invocationIndex": 3}}
    for conversation in (None, []):
        edited_case = {"evalId": "one", "conversation": conversation, "sessionInput": start}
        await request_json(web, "put", "/eval_sets/set/evals/one", edited_case)
        (stored,) = json.loads(path.read_text())["eval_cases"]
        assert stored["conversation_scenario"] == scenario
        assert stored["session_input"]["state"] == {"invocationIndex": 3}


async def test_fields_of_adks_editor_are_left_out(web, smoke):
    eval_case = await request_json(web, "get", "/eval_sets/smoke/evals/good")
    eval_case["conversation"][0]["intermediateData"] = {
        "invocationEvents": [
            {
                "author": "counter",
                "invocationIndex": 0,
                "toolUseIndex": 1,
                "content": {"parts": [{"functionCall": {"name": "f", "args": {"toolUseIndex": 2}}}]},
            }
        ]
    }
    await request_json(web, "put", "/eval_sets/smoke/evals/good", eval_case)
    stored = json.loads(smoke.read_text())["eval_cases"][0]
    (event,) = stored["conversation"][0]["intermediate_data"]["invocation_events"]
    assert set(event) == {"author", "content"}
    assert event["content"]["parts"][0]["function_call"]["args"] == {"toolUseIndex": 2}


COUNTED = {"prompt_token_count": 3, "prompt_tokens_details": [{"modality": "TEXT", "token_count": 3}]}


async def test_model_metadata_is_spelled_like_adk_and_kept_by_edits(web, smoke):
    document = json.loads(smoke.read_text())
    event = {"author": "counter", "usage_metadata": COUNTED, "grounding_metadata": {"web_search_queries": []}}
    document["eval_cases"][0]["conversation"][0]["intermediate_data"] = {"invocation_events": [event]}
    smoke.write_text(json.dumps(document))
    eval_case = await request_json(web, "get", "/eval_sets/smoke/evals/good")
    assert eval_case == EvalCase.model_validate(eval_case).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    (invocation_event,) = eval_case["conversation"][0]["intermediateData"]["invocationEvents"]
    assert invocation_event["usageMetadata"]["promptTokensDetails"] == [{"modality": "TEXT", "tokenCount": 3}]
    eval_case["conversation"][0]["userContent"]["parts"][0]["text"] = "Rome"
    await request_json(web, "put", "/eval_sets/smoke/evals/good", eval_case)
    (turn,) = json.loads(smoke.read_text())["eval_cases"][0]["conversation"]
    assert turn["user_content"]["parts"][0]["text"] == "Rome"
    assert turn["intermediate_data"]["invocation_events"] == [event]


async def test_an_edit_that_makes_no_case_changes_nothing(web, smoke):
    before = smoke.read_bytes()
    good = "/eval_sets/smoke/evals/good"
    await request_json(web, "put", good, {"evalId": "other"}, 400)
    assert (await request_json(web, "put", good, {"conversation": [{"userContent": 3}]}, 422))["detail"]
    await request_json(web, "put", good, [], 422)
    await request_json(web, "put", "/eval_sets/smoke/evals/none", {"evalId": "none"}, 404)
    assert smoke.read_bytes() == before


async def test_deleting_a_case_leaves_the_others_unchanged(web, smoke):
    _, *others = json.loads(smoke.read_text())["eval_cases"]
    assert await request_json(web, "delete", "/eval-sets/smoke/eval-cases/good") is None
    assert json.loads(smoke.read_text())["eval_cases"] == others


OURS = """\
eval_set_id: set # ours
eval_cases:
- eval_id: one  # the first
  conversation: []
- eval_id: two
  conversation:
  - user_content: {role: user, parts: [{text: hi}]}  # greets
"""


async def test_a_yaml_file_is_changed_in_place_with_its_comments(web, folder):
    path = builders.write(folder.path, "set.evalset.yaml", OURS)
    assert await request_json(web, "get", "/eval_sets/set/evals") == ["one", "two"]
    eval_case = await request_json(web, "get", "/eval_sets/set/evals/two")
    eval_case["conversation"][0]["finalResponse"] = builders.text("hello", "model")
    await request_json(web, "put", "/eval_sets/set/evals/two", eval_case)
    assert path.read_text() == OURS + (
        "    final_response:\n      parts:\n      - text: hello\n      role: model\n"
    )
    await request_json(web, "delete", "/eval_sets/set/evals/two")
    assert path.read_text() == OURS.partition("- eval_id: two")[0]


async def test_edit_of_an_older_file_converts_it(web, folder):
    text = '[{"name": "one", "data": [{"query": "hi"}]}]'
    path = builders.write(folder.path, "set.evalset.json", text)
    await request_json(
        web, "put", "/eval_sets/set/evals/one", {"conversation": [builders.turn("hi", "hello")]}
    )
    (case,) = EvalSet.model_validate_json(path.read_text()).eval_cases
    assert case.conversation[0].final_response.parts[0].text == "hello"


async def test_run_returns_when_ended_and_is_stored_as_result(web, process, smoke):
    body = {"eval_case_ids": ["good", "breaks"], "eval_metrics": [MATCH]}
    answer = RunEvalResponse.model_validate(await request_json(web, "post", "/eval-sets/smoke/run", body))
    assert {result.eval_id: result.final_eval_status.name for result in answer.run_eval_results} == {
        "good": "PASSED",
        "breaks": "FAILED",
    }
    (result_id,) = await request_json(web, "get", "/eval_results")
    assert await request_json(web, "get", "/eval-results") == {"evalResultIds": [result_id]}
    run = await units_of_work.read(EvalRun.objects.get)
    assert result_id == f"counter_smoke_{run.created_at}"
    for path in ("eval_results", "eval-results"):
        body_json = EvalSetResult.model_validate(await request_json(web, "get", f"/{path}/{result_id}"))
        good, breaks = body_json.eval_case_results
        turn = good.eval_metric_result_per_invocation[0]
        assert turn.expected_invocation is not None
        assert turn.expected_invocation.user_content == turn.actual_invocation.user_content
        assert turn.eval_metric_results[0].metric_name == "response_match_score"
        why = breaks.overall_eval_metric_results[0].details.rubric_scores[0]
        assert "on fire" in why.rationale
    session = await web.get(f"/apps/counter/users/{good.user_id}/sessions/{good.session_id}")
    body = b"".join([part async for part in session.streaming_content])
    assert json.loads(body)["events"]


async def test_result_names_evalset_tokens_and_seconds_like_adk(web, process, smoke):
    body = {"eval_case_ids": ["good"], "eval_metrics": [MATCH]}
    (case,) = (await request_json(web, "post", "/eval-sets/smoke/run", body))["runEvalResults"]
    assert case["evalSetFile"] == case["evalSetId"] == "smoke"
    run = await units_of_work.read(EvalRun.objects.get)
    body_json = await request_json(web, "get", f"/eval_results/counter_smoke_{run.created_at}")
    for result in (case, body_json["evalCaseResults"][0]):
        (turn,) = result["evalMetricResultPerInvocation"]
        for scores in (result["overallEvalMetricResults"], turn["evalMetricResults"]):
            details = {score["metricName"]: score["details"] for score in scores}
            assert set(details["invocation_duration_v1"]["durationDetails"]) == {
                "totalSeconds",
                "modelSeconds",
                "toolSeconds",
                "frameworkSeconds",
            }


async def test_failed_metric_has_reason_and_case_does_not_pass(web, process, smoke):
    rubrics = {"metricName": "rubric_based_final_response_quality_v1", "threshold": 0.5}
    body = {"eval_case_ids": ["good"], "eval_metrics": [MATCH, rubrics]}
    (case,) = (await request_json(web, "post", "/eval-sets/smoke/run", body))["runEvalResults"]
    assert case["finalEvalStatus"] == 3
    judged = {result["metricName"]: result for result in case["overallEvalMetricResults"]}
    assert judged["response_match_score"]["evalStatus"] == 1
    unjudged = judged["rubric_based_final_response_quality_v1"]
    assert unjudged["evalStatus"] == 3
    assert unjudged["details"]["rubricScores"][0]["rationale"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"eval_metrics": []}, 400),
        ({"eval_metrics": [{"metricName": "nonsense", "threshold": 1}]}, 400),
        ({"eval_metrics": [MATCH], "eval_case_ids": ["none"]}, 404),
        ({"eval_metrics": [{"metricName": "response_match_score", "threshold": "much"}]}, 422),
        ({}, 422),
    ],
)
async def test_invalid_run_is_refused(web, process, smoke, body, status):
    assert (await request_json(web, "post", "/eval-sets/smoke/run", body, status))["detail"]
    assert not await units_of_work.read(EvalRun.objects.exists)


async def test_an_evalset_that_is_not_there_is_not_run(web, process):
    refused = await request_json(web, "post", "/eval_sets/none/run_eval", {"eval_metrics": [MATCH]}, 400)
    assert refused["detail"] == "Eval set `none` not found."


async def test_results_of_adk_web_are_listed_beside_ours(web, folder):
    history = folder.path / ".adk" / "eval_history"
    result = {
        "eval_set_result_id": "counter/old_1.5",
        "eval_set_id": "old",
        "eval_case_results": [{"eval_id": "one", "final_eval_status": 1, "eval_set_id": "old"}],
        "creation_timestamp": 1.5,
    }
    builders.write(history, "counter_old_1.5.evalset_result.json", result)
    assert await request_json(web, "get", "/eval_results") == ["counter_old_1.5"]
    body = await request_json(web, "get", "/eval_results/counter_old_1.5")
    assert (body["evalSetId"], body["evalCaseResults"][0]["evalId"]) == ("old", "one")


async def test_adk_web_result_has_usage_in_camel_case(web, folder):
    usage = {"token_usage_details": {"total_tokens": 3.0}, "duration_details": {"total_seconds": 0.5}}
    metric = {"metric_name": "token_usage_v1", "score": 3.0, "eval_status": 4, "details": usage}
    case = {"eval_id": "one", "final_eval_status": 1, "overall_eval_metric_results": [metric]}
    result = {"eval_set_result_id": "r", "eval_set_id": "old", "eval_case_results": [case]}
    builders.write(folder.path / ".adk" / "eval_history", "counter_old_2.5.evalset_result.json", result)
    body = await request_json(web, "get", "/eval_results/counter_old_2.5")
    (results,) = body["evalCaseResults"][0]["overallEvalMetricResults"]
    assert results["details"] == {
        "tokenUsageDetails": {"totalTokens": 3.0},
        "durationDetails": {"totalSeconds": 0.5},
    }


async def test_only_metrics_that_can_run_are_offered(web):
    metrics = (await request_json(web, "get", "/metrics-info"))["metricsInfo"]
    metrics_by_name = {metric.metric_name: metric for metric in map(MetricInfo.model_validate, metrics)}
    assert metrics_by_name["response_match_score"].metric_value_info.interval.max_value == 1.0
    assert not metrics_by_name["token_usage_v1"].requires_threshold
    assert "safety_v1" not in metrics_by_name or metrics_by_name["safety_v1"].requires_threshold


class Remembering(Process):
    """A process that also tells what was said in a session."""

    async def call(self, method, path, body=None):
        """Answer the conversation asked for, or carry out an eval run."""
        if path == "/devui/evals/conversation":
            return [builders.turn("hi", "hello")]
        return await super().call(method, path, body)


@pytest.fixture
def remembering(web, process):
    """The process of the agent, which remembers a conversation."""
    from sessions_app.runs import runtime_client

    runtime_client.register(Remembering(process.source))


async def test_a_session_becomes_a_case_that_starts_as_the_session_did(web, remembering, smoke):
    key = SessionKey("", "counter", "ann", "s1")
    await units_of_work.write(create_session, key, {"n": 1, "user:tier": "gold"})
    await units_of_work.write(edit_state, key, {"n": 2, "later": True})
    body = {"evalId": "from_session", "sessionId": "s1", "userId": "ann"}
    assert await request_json(web, "post", "/eval_sets/smoke/add_session", body) is None
    added = json.loads(smoke.read_text())["eval_cases"][-1]
    assert added["conversation"] == [builders.turn("hi", "hello")]
    assert added["session_input"] == {
        "app_name": "counter",
        "user_id": "ann",
        "state": {"n": 1, "user:tier": "gold"},
    }
    again = await request_json(web, "post", "/eval-sets/smoke/add-session", body, 400)
    assert "already exists" in again["detail"]
    nobody = {**body, "evalId": "x", "sessionId": "nobody"}
    assert (await request_json(web, "post", "/eval_sets/smoke/add_session", nobody, 404))[
        "detail"
    ] == "Session not found"
