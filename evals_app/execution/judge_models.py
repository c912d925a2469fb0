"""Models of judges and simulated users, wrapped to log their answers, errors and tokens.

ADK's evaluators and simulators swallow most of these. The model is wrapped, not its caller, because any model of ADK
may judge.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse

from evals_app.execution import _adk
from evals_app.execution.judge_verdicts import quote_judge
from evals_app.execution.model_retry import RetriedCall, Retries
from sessions_app.delivery.failure import Failure
from sessions_app.prices import KINDS
from sessions_app.store.events.call_usage import add_tokens, split_tokens
from sessions_app.store.events.token_counts import count_tokens
from sessions_app.store.short_texts import truncate

Tokens = dict[str, int]
"""Numbers of `prompt`, `output`, `thoughts` (part of output) and `cached` (part of prompt) tokens, and of `calls`."""

MAX_ANSWERS = 20
MAX_ANSWER_LENGTH = 2000


@dataclass
class ModelLog:
    """Log of all model calls of one judge or simulated user.

    Attributes:
        retries: retries of its calls; None: none.
        unavailable: why the model was given up; None: it was not.
    """

    retries: Retries | None = None
    unavailable: Failure | None = None
    answers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    by_model: dict[str, Tokens] = field(default_factory=dict)

    def listen(self, asker: object) -> None:
        """Wrap the model of an evaluator or a simulator; one without a model is not changed."""
        if isinstance(asker, _adk.SentenceEvaluator):
            asker.replies = self.answers
        _adk.replace_model(asker, lambda model: LoggedModel(model=model.model, inner=model, log=self))

    @property
    def excerpts(self) -> list[str]:
        """The first answers, shortened."""
        return [truncate(answer, MAX_ANSWER_LENGTH) for answer in self.answers[:MAX_ANSWERS]]

    @property
    def unreadable_reason(self) -> str:
        """Why the judge gave no verdict: an error, or an answer that cannot be read. Empty if it was not asked."""
        if self.errors:
            return f"The judge could not be asked: {self.errors[-1]}"
        if not self.answers:
            return ""
        return f"No verdict: the judge's answer cannot be read. {quote_judge(self.answers[-1])}"

    def note_error(self, error: Exception) -> Exception:
        """Add an error, and return it."""
        self.errors.append(f"{type(error).__name__}: {error}")
        return error

    def note(self, model: str, response: LlmResponse) -> None:
        """Add an answer and its tokens."""
        parts = (response.content.parts if response.content else None) or []
        reply = "".join(part.text or "" for part in parts if not part.thought)
        self.answers.append(reply or response.error_message or "")
        tokens, usage = self.by_model[model], response.usage_metadata
        if usage is not None:
            counts = count_tokens(lambda name: getattr(usage, name, None))
            kinds = ("prompt", "output", "thoughts", "cached", "total")
            add_tokens(tokens, split_tokens(*(counts.get(kind) for kind in kinds)))


class ModelExited(RuntimeError):
    """A judge or a simulated user called `sys.exit`. The agent is not at fault."""


class LoggedModel(BaseLlm):
    """A model whose calls are logged."""

    inner: BaseLlm
    log: ModelLog

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the responses of the model."""
        name = self.inner.model
        used = self.log.by_model.setdefault(name, dict.fromkeys(KINDS, 0))
        used["calls"] += 1
        retries = self.log.retries
        call = RetriedCall(retries, name) if retries else None
        if call:
            _adk.disable_client_retries(llm_request)
        while True:
            has_answered = False
            if call:
                await call.await_admission()
            try:
                async with aclosing(self.inner.generate_content_async(llm_request, stream)) as responses:
                    async for response in responses:
                        has_answered = True
                        if not response.partial:
                            self.log.note(name, response)
                        if call:
                            await call.note_usage(response)
                        yield response
                return
            except SystemExit as error:  # it would end the event loop, and be taken for the agent's
                raise self.log.note_error(ModelExited(f"{name} called sys.exit({error.code!r}).")) from error
            except Exception as error:
                if not has_answered and call and await call.wait_after(error):
                    continue
                self.log.unavailable = self.log.unavailable or (call.unavailable if call else None)
                self.log.note_error(error)
                raise


def sum_tokens(*parts: dict[str, Tokens]) -> dict[str, Tokens]:
    """Return the sum of several token counts by model."""
    total: dict[str, Tokens] = {}
    for part in parts:
        for model, used in part.items():
            add_tokens(total.setdefault(model, {}), used)
    return total
