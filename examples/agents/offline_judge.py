"""A judge and a simulated user without network: free and deterministic.

ADK finds the models of judges (`judge_model`) and of simulated users (`user_simulator_config.model`) by their names
in its `LLMRegistry`. `register()` puts these two there; an agent calls it when it is loaded, so they are known to
DevUI, `adk eval` and `adk web` alike. A class of your own is registered in the same way.

- `offline-judge` reads the prompts of ADK's judged metrics. A rubric is fulfilled when everything that it “quotes”
  stands in what the agent did; an answer is valid when it has every word of the expected one; a sentence is supported
  when the context has all its longer words and numbers.
- `offline-user` says the lines of the conversation plan, one a turn, and then ends the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

RUBRIC = re.compile(r"^\*\s+(?:\[id: (?P<id>[^\]]*)\]\s*)?(?P<text>.+)$", re.MULTILINE)
QUOTED = re.compile(r"[“\"]([^”\"]+)[”\"]")
SENTENCE = re.compile(r"<sentence>(.*?)</sentence>", re.DOTALL)
ANSWERS = re.compile(
    r'"User prompt": (?P<asked>.*?),\s*"Agent response": (?P<given>.*),\s*"Reference response": (?P<wanted>.*?),\s*\}',
    re.DOTALL,
)
ENDS = re.compile(r"(?<=[.!?。！？])\s+")
WORD = re.compile(r"\w+")
PLAN, HISTORY, REPLY = "# Conversation Plan", "# Conversation History", "# Generated User Response"
NO_REQUEST = ("Goal:", "Communication style:")
STOP = "</finished>"
LONG = 4
"""Letters of a word from which a context is searched for it; shorter words occur everywhere."""


class Offline(BaseLlm):
    """A model that answers a prompt by a rule."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one answer, with its token counts."""
        prompt = "\n".join(
            part.text or "" for content in llm_request.contents for part in content.parts or []
        )
        answer = self.answer(prompt)
        prompt_tokens, answer_tokens = -(-len(prompt) // 4), -(-len(answer) // 4)
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=answer)]),
            model_version=self.model,
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=prompt_tokens,
                candidates_token_count=answer_tokens,
                total_token_count=prompt_tokens + answer_tokens,
            ),
        )

    def answer(self, prompt: str) -> str:
        """Return the text of the model's answer."""
        raise NotImplementedError


class OfflineJudge(Offline):
    """Answers the prompts of ADK's metrics."""

    model: str = "offline-judge"

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the name for `judge_model`."""
        return ["offline-judge"]

    def answer(self, prompt: str) -> str:
        """Recognize the metric of a prompt, and answer in its format."""
        if "<properties>" in prompt:
            return "\n\n".join(_rubrics(prompt))
        if "Sentence Segmentation Output" in prompt:
            response = _between(prompt, "**Response Begin**", "**Response End**")
            return "\n".join(
                f"<sentence>{sentence}</sentence>" for sentence in ENDS.split(response) if sentence.strip()
            )
        if "**Sentences Begin**" in prompt:
            return "\n".join(_supported(prompt))
        if REPLY in prompt:
            return json.dumps({"criteria": [], "is_valid": _follows(prompt)})
        return _valid(prompt)


class OfflineUser(Offline):
    """Sends the lines of a scenario's plan."""

    model: str = "offline-user"

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the name for `user_simulator_config.model`."""
        return ["offline-user"]

    def answer(self, prompt: str) -> str:
        """Return the first line of the plan that was not sent yet; after the last, the end of the conversation."""
        history = prompt.rpartition(HISTORY)[2]
        return next((line for line in _requests(prompt) if f"user: {line}" not in history), STOP)


def register() -> None:
    """Register both with ADK in this process."""
    for model in (OfflineJudge, OfflineUser):
        LLMRegistry.register(model)


def _rubrics(prompt: str) -> Iterator[str]:
    request, _, listed = prompt.rpartition("<properties>")
    done = _last(request, ("<final_answer>", "<response>", "<conversation_history>"))
    for rubric_id, text in _listed(listed.partition("</properties>")[0].strip()):
        quoted = QUOTED.findall(text)
        missing = [words for words in quoted if words.lower() not in done.lower()]
        why = f"It lacks {', '.join(missing)}." if missing else "All that it quotes is there."
        name = f"ID: {rubric_id}\n" if rubric_id else ""
        verdict = "no" if missing else "yes"
        yield f"{name}Property: {text}\nEvidence: the agent\nRationale: {why}\nVerdict: {verdict}"


def _listed(properties: str) -> list[tuple[str, str]]:
    """Return ids and texts of rubrics from lines, or from JSON where a whole conversation is judged."""
    if properties.startswith("["):
        return [(rubric["id"], rubric["property"]) for rubric in json.loads(properties)]
    return [(rubric["id"] or "", rubric["text"]) for rubric in RUBRIC.finditer(properties)]


def _supported(prompt: str) -> Iterator[str]:
    context = set(_words(_between(prompt, "**Context Begin**", "**Context End**")))
    for sentence in SENTENCE.findall(_between(prompt, "**Sentences Begin**", "**Sentences End**")):
        missing = [word for word in _words(sentence) if _tells(word) and word not in context]
        label = "unsupported" if missing else "supported"
        why = f"The context lacks {', '.join(missing)}." if missing else "The context says so."
        yield (
            f"sentence: {sentence}\nlabel: {label}\nrationale: {why}\n"
            "supporting_excerpt: null\ncontradicting_excerpt: null"
        )


def _valid(prompt: str) -> str:
    match = ANSWERS.search(prompt)
    answer_words, wanted = (set(_words(match[side])) if match else set() for side in ("given", "wanted"))
    missing = sorted(wanted - answer_words)
    verdict = "invalid" if missing or not match else "valid"
    reasoning = f"It lacks {', '.join(missing)}." if missing else "It says all of it."
    return json.dumps({"reasoning": reasoning, "is_the_agent_response_valid": verdict}, indent=2)


def _follows(prompt: str) -> bool:
    """Tell whether a simulated message is an unsent line of the plan, or its end at the right time."""
    reply = prompt.rpartition(REPLY)[2].strip()
    history = prompt.rpartition(REPLY)[0].rpartition(HISTORY)[2]
    left = [line for line in _requests(prompt) if f"user: {line}" not in history]
    return reply in left if left else STOP in reply


def _requests(prompt: str) -> list[str]:
    plan = prompt.rpartition(PLAN)[2].partition(HISTORY)[0]
    lines = (line.strip().removeprefix("- ") for line in plan.splitlines())
    return [line for line in lines if line and not line.startswith(NO_REQUEST)]


def _between(text: str, start: str, end: str) -> str:
    """Return the last text between two marks: prompts contain examples before it."""
    return text.rpartition(start)[2].partition(end)[0].strip()


def _last(text: str, marks: tuple[str, ...]) -> str:
    """Return the text after the last of these marks."""
    places = [text.rfind(mark) for mark in marks]
    return text[max(places) :] if max(places) >= 0 else text


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _tells(word: str) -> bool:
    return len(word) >= LONG or word.isdigit()
