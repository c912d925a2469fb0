"""Replies of judges that leave out verdicts, or give unclear ones: the case is incomplete, with a quote."""

from __future__ import annotations

import csv
import io
import json

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

from evals_app.analysis import attempt_detail
from evals_app.analysis.ci_gate import Gate
from evals_app.analysis.exports import html_page, junit, markdown, run_csv, run_json
from evals_app.execution import judge_verdicts
from evals_app.models import EvalRun, MetricResult
from sessions_app.store.database import units_of_work
from tests.evals import agents
from tests.evals.builders import case, evalset, turn

Status = MetricResult.Status
RUBRICS = "rubric_based_final_response_quality_v1"
SENTENCES = "hallucinations_v1"
TEXTS = {
    "names": "The answer names the country.",
    "short": "The answer is short.",
    "polite": "The answer is polite.",
}


def rubric(name, **more):
    return {"rubric_id": name, "rubric_content": {"text_property": TEXTS[name]}, **more}


class ScriptedJudge(BaseLlm):
    """Gives the replies of a list, or of a function of the prompt."""

    async def generate_content_async(self, llm_request, stream=False):
        prompt = "".join(part.text or "" for content in llm_request.contents for part in content.parts or [])
        reply = REPLIES(prompt) if callable(REPLIES) else REPLIES.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=reply)]))

    @classmethod
    def supported_models(cls):
        return ["scripted-judge"]


LLMRegistry.register(ScriptedJudge)
REPLIES = []


@pytest.fixture
def judge(play, monkeypatch):
    """Play a case whose judge gives replies, and return the run, its overall score and those of its turns."""

    async def run(metric, replies, *turns, threshold=0.9, samples=1, rubrics=(), **more):
        monkeypatch.setitem(globals(), "REPLIES", replies if callable(replies) else list(replies))
        options = {"judge_model": "scripted-judge", "num_samples": samples}
        criterion = {"threshold": threshold, "judge_model_options": options, **more}
        if rubrics:
            criterion["rubrics"] = list(rubrics)
        document = evalset(case("a", *(turns or [turn("where", "Paris is in France.")])))
        played = await play(document, agents.talker("Paris is in France."), {"criteria": {metric: criterion}})
        return played, await units_of_work.read(read_results, played, metric)

    return run


def read_results(run, metric):
    results = MetricResult.objects.filter(attempt__run=run, metric=metric)
    return list(results.order_by("position", "pk"))


def block(name, verdict, text=None, has_id=True):
    head = f"ID: {name}\n" if has_id else ""
    return f"{head}Property: {text or TEXTS[name]}\nRationale: because\nVerdict: {verdict}\n\n"


YES = block("names", "yes") + block("short", "yes")
ALL = [rubric(name) for name in TEXTS]


@pytest.mark.parametrize(
    ("reply", "unjudged", "quote"),
    [
        (YES, ["polite"], "ID: names"),
        (YES + block("polite", "no", "Politeness of it", has_id=False), ["polite"], "ID: names"),
        (YES + block("polite", "partially"), ["polite"], "“partially”"),
        (YES + block("polite", "n/a"), ["polite"], "“n/a”"),
        (YES + block("polite", "not yes"), ["polite"], "“not yes”"),
        (YES + block("polite", "yes and no"), ["polite"], "“yes and no”"),
        (YES + block("polite", "unknown"), ["polite"], "“unknown”"),
        (YES + block("polite", "no opinion"), ["polite"], "“no opinion”"),
        (YES + block("polite", "no, as of yesterday"), ["polite"], "“no, as of yesterday”"),
        (YES + block("polite", "yes, but only partly"), ["polite"], "“yes, but only partly”"),
        (YES + block("polite", "Yes (partially)"), ["polite"], "“Yes (partially)”"),
        (YES + block("polite", "yes?"), ["polite"], "“yes?”"),
        (YES + block("polite", "yes/no"), ["polite"], "“yes/no”"),
        (YES + block("polite", "はい"), ["polite"], "“はい”"),
        (YES + block("polite", "yes") + block("polite", "no"), ["polite"], "ID: names"),
        (block("names", "yes"), ["short", "polite"], "ID: names"),
        ("Fine by me.", list(TEXTS), "Fine by me."),
    ],
)
async def test_rubric_without_a_clear_verdict_makes_the_case_incomplete(judge, reply, unjudged, quote):
    run, [overall, first] = await judge(RUBRICS, [reply], rubrics=ALL)
    assert (run.passed, run.incomplete) == (0, 1)
    assert (overall.status, overall.score) == (Status.NOT_EVALUATED, None)
    assert first.status == Status.NOT_EVALUATED
    assert "Turn 1 could not be judged." in overall.reason
    assert all(f"“{name}”" in overall.reason for name in unjudged)
    assert quote in overall.reason
    for result in (overall, first):
        listed = {score["rubric_id"]: score["score"] for score in json.loads(result.details)["rubrics"]}
        assert listed == {name: None if name in unjudged else 1.0 for name in TEXTS}


@pytest.mark.parametrize(
    "verdict",
    [
        *(
            "Yes, although it misses one",
            "Yes. However, it omits the date",
            "Yes, except for the date",
            "yes, no",
        ),
        *(
            "Yes, to some extent",
            "Yes, with minor caveats",
            "Yes, not entirely",
            "Yes, kind of",
            "Yes - only in part",
        ),
        *(
            "Yes, for the most part",
            "Yes, I’m not sure",
            "Yes (almost)",
            "No. Yes, in fact",
            "No, or maybe yes",
        ),
        *("No, except for the first", "Yes / no", "yes|no"),
    ],
)
def test_verdict_that_takes_itself_back_is_unclear(verdict):
    assert not judge_verdicts.is_clear(verdict, 1.0 if "yes" in verdict.lower() else 0.0)


@pytest.mark.parametrize(
    "verdict",
    [
        *(
            "Yes, noted in the first sentence",
            "Yes, orders are listed",
            "Yes, with the right city",
            "Yes: it is",
        ),
        *("No, not at all", "No, no greeting", "No, only insults", "No (in some turns it insults)", "[Yes]"),
    ],
)
def test_verdict_with_an_explanation_is_clear(verdict):
    assert judge_verdicts.is_clear(verdict, 1.0 if "yes" in verdict.lower() else 0.0)


@pytest.mark.parametrize(
    "verdict",
    ["yes", "Yes.", "**yes**", "`YES`", "yes, because it greets", "yes (the answer says so)", '"yes"'],
)
async def test_clear_verdicts_decide(judge, verdict):
    run, [overall, _] = await judge(RUBRICS, [YES + block("polite", verdict)], rubrics=ALL)
    assert (run.passed, overall.score) == (1, 1.0), overall.reason


@pytest.mark.parametrize("verdict", ["no", "No.", "**No**", "no: it insults", "no - it insults"])
async def test_clear_refusals_decide(judge, verdict):
    run, [overall, _] = await judge(RUBRICS, [YES + block("polite", verdict)], rubrics=ALL)
    assert (run.failed, round(overall.score, 3)) == (1, 0.667), overall.reason


async def test_failure_stands_if_missing_verdicts_cannot_change_it(judge):
    reply = block("names", "no") + block("short", "yes")
    run, [overall, first] = await judge(RUBRICS, [reply], rubrics=ALL, threshold=0.9)
    assert (run.failed, overall.status, first.status) == (1, Status.FAILED, Status.FAILED)
    assert "No verdict on “polite”" in overall.reason
    run, [overall, _] = await judge(RUBRICS, [reply], rubrics=ALL, threshold=0.6)
    assert (run.incomplete, overall.status) == (1, Status.NOT_EVALUATED)


async def test_one_sample_with_a_verdict_is_enough(judge):
    replies = [YES, YES + block("polite", "yes"), YES + block("polite", "n/a")]
    run, [overall, _] = await judge(RUBRICS, replies, rubrics=ALL, samples=3)
    assert (run.passed, overall.score) == (1, 1.0)


async def test_rubrics_of_each_turn_are_read_with_its_own_reply(judge):
    typed = {"type": "FINAL_RESPONSE_QUALITY"}
    turns = [
        {**turn("first", "Paris"), "rubrics": [rubric("short", **typed)]},
        {**turn("second", "Paris"), "rubrics": [rubric("polite", **typed)]},
    ]

    def reply(prompt):
        return block("short", "no") if TEXTS["short"] in prompt else block("polite", "yes")

    run, [overall, first, second] = await judge(RUBRICS, reply, *turns)
    assert (run.failed, overall.score) == (1, 0.5)
    assert (first.score, second.score) == (0.0, 1.0)


async def test_last_turn_of_a_conversation_metric_needs_every_verdict(judge):
    name = "rubric_based_multi_turn_trajectory_quality_v1"
    turns = [turn("first", "Paris"), turn("second", "Paris")]
    run, [overall, *_] = await judge(name, [YES], *turns, rubrics=ALL)
    assert (run.incomplete, overall.status) == (1, Status.NOT_EVALUATED)
    assert overall.reason.startswith("Turn 2 could not be judged. No verdict on “polite”")


SPLIT = (
    "<sentence>Paris is in France.</sentence><sentence>It is old.</sentence><sentence>It rains.</sentence>"
)


def labelled(sentence, label, order="label rationale"):
    fields = {"label": label, "rationale": "read"}
    lines = [f"{name}: {fields[name]}" for name in order.split()]
    return "\n".join(
        [f"sentence: {sentence}", *lines, "supporting_excerpt: null", "contradicting_excerpt: null\n"]
    )


FINE = labelled("Paris is in France.", "supported") + labelled("It is old.", "not_applicable")


@pytest.mark.parametrize(
    ("reply", "quote"),
    [
        (FINE, "sentence: Paris is in France."),
        (FINE + labelled("It rains.", "not supported"), "“not supported”"),
        (FINE + labelled("It rains.", "partially"), "“partially”"),
        (FINE + labelled("It rains.", "unsupported", "rationale label"), "sentence: Paris is in France."),
        (FINE + labelled("It is old.", "supported"), "sentence: Paris is in France."),
    ],
)
async def test_sentence_without_a_label_makes_the_case_incomplete(judge, reply, quote):
    run, [overall, first] = await judge(SENTENCES, [SPLIT, reply])
    assert run.incomplete == 1
    assert (overall.status, first.status, overall.score) == (Status.NOT_EVALUATED, Status.NOT_EVALUATED, None)
    assert "No verdict on “It rains.”" in overall.reason
    assert quote in overall.reason
    for result in (overall, first):
        listed = {score["rubric_id"]: score["score"] for score in json.loads(result.details)["rubrics"]}
        assert listed == {"Paris is in France.": 1.0, "It is old.": 1.0, "It rains.": None}


@pytest.mark.parametrize(
    ("last", "score"),
    [
        (labelled("It rains.", "supported"), 1.0),
        (labelled("It rains", "SUPPORTED"), 1.0),
        (labelled("**It  rains.**", "supported"), 1.0),
        (labelled("Rain falls.", "supported"), 1.0),
        (labelled("It rains.", "disputed"), 2 / 3),
    ],
)
async def test_labelled_sentences_score_as_in_adk(judge, last, score):
    run, [overall, _] = await judge(SENTENCES, [SPLIT, FINE + last])
    assert overall.score == pytest.approx(score), overall.reason
    assert run.incomplete == 0


async def test_step_that_cannot_be_split_into_sentences_is_not_passed_over(judge):
    turns = [turn("first", "Paris"), turn("second", "Paris")]
    one = "<sentence>Paris is in France.</sentence>"
    replies = [one, labelled("Paris is in France.", "supported"), "no sentences here"]
    run, [overall, *_] = await judge(SENTENCES, replies, *turns)
    assert run.incomplete == 1
    assert "Turn 2 could not be judged." in overall.reason
    assert "No sentences produced by segmenter." in overall.reason


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ('{"is_the_agent_response_valid": "valid"}', "passed"),
        ('{"is_the_agent_response_valid": [true]}', "passed"),
        ('{"is_the_agent_response_valid": "partially"}', "failed"),
        ('{"is_the_agent_response_valid": "unclear"}', "not_evaluated"),
        ('{"is_the_agent_response_invalid": "false"}', "passed"),
        ('{"is_the_agent_response_invalid": "invalid"}', "failed"),
        ('{"is_the_agent_response_invalid": "unclear"}', "not_evaluated"),
        ('{"is_the_agent_response_invalid": "partially"}', "not_evaluated"),
    ],
)
async def test_unclear_verdict_on_an_answer_is_none(judge, reply, status):
    _, [overall, _] = await judge("final_response_match_v2", [reply])
    assert overall.status == status


def render_files(run):
    run = EvalRun.objects.select_related("evalset", "version").get(pk=run.pk)
    result = Gate().judge(run)
    return {
        "json": run_json.as_json([run]),
        "junit": junit.as_junit([result]),
        "csv": run_csv.as_csv([run]),
        "markdown": markdown.as_markdown([result]),
        "html": html_page.as_html([run]),
    }


async def test_every_file_quotes_the_unclear_verdict(judge):
    turns = [turn("Oslo", "Paris"), turn("Rome", "Paris")]
    clear = YES + block("polite", "yes")
    run, _ = await judge(
        RUBRICS,
        lambda prompt: clear if "Oslo" in prompt else YES + block("polite", "partially"),
        *turns,
        rubrics=ALL,
    )
    files = await units_of_work.read(render_files, run)
    for form, text in files.items():
        assert "partially" in text, form
        assert "polite" in text, form
    [row] = csv.DictReader(io.StringIO(files["csv"]))
    assert (row["status"], row[RUBRICS]) == ("incomplete", "")


async def test_page_lists_rubrics_without_a_verdict(judge):
    run, _ = await judge(RUBRICS, [YES], rubrics=ALL)

    def read():
        attempt = run.attempts.select_related("run__version").get()
        [verdict] = attempt_detail.detail(attempt, is_complete=False).verdicts
        return [(listed["text"], listed["score"]) for listed in verdict.rubrics]

    assert await units_of_work.read(read) == [
        (TEXTS["names"], 1.0),
        (TEXTS["short"], 1.0),
        (TEXTS["polite"], None),
    ]
