"""Retries of model calls when a service is overloaded, limits its rate or cannot be reached.

All model calls of an attempt are retried here: those of agents, judges and simulated users, for any model class.
ADK's own retries (`HttpRetryOptions`) cover Gemini alone, ignore `Retry-After`, and are invisible. Only the call is
repeated: no tool of an attempt runs twice. A model is given up when its retries end, or when there is no access to it:
a key or a permission is missing or wrong. Every call first waits for its admission by the rate limiter.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from evals_app.execution import _adk
from evals_app.execution.model_errors import describe_error, is_access_refused, is_temporary
from evals_app.execution.rate_limiter import RateLimiter
from evals_app.rates.model_rates import Hold, Reservation
from evals_app.runs.attempt_status import MODEL_UNAVAILABLE, NO_MODEL_ACCESS
from sessions_app.delivery.failure import Failure
from sessions_app.store.events.token_counts import count_tokens

FIRST_WAIT_S = 1.0
"""Seconds before the first retry of a call; each further wait is twice as long."""

MAX_WAIT_S = 30.0
"""Maximum seconds of a wait, unless the service asks for more."""

MAX_REQUESTED_S = 3_600.0
"""Maximum seconds that a service can request. All processes wait, so a single wrong response would stop a model for
ever; one that means more is asked again each hour.
"""

JITTER = 0.25
"""Maximum share that is added to a wait at random, so that attempts do not retry all at once."""

NO_ACCESS_HINT = (
    "Set the key of the model, or grant the permission, where the evals run. Builds of forks have no secrets."
)


@dataclass
class Retries:
    """Retry limit of the model calls of one attempt, and the time they waited. Waits may overlap.

    Attributes:
        limit_s: seconds for which one call is retried; 0: never; None: without a limit.
        report: called with the reason of a wait ("": no call waits any more) and the seconds waited so far.
        limiter: admits the calls.
        waited: seconds in which at least one call waited.
    """

    limit_s: float | None
    report: Callable[[str, float], Awaitable[None]]
    limiter: RateLimiter = field(default_factory=RateLimiter)
    waited: float = 0.0
    _waiting: int = 0
    _since: float = 0.0

    async def wait(self, seconds: float, why: str) -> None:
        """Wait. A cancelled attempt stops waiting."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        try:
            await self.report(why, self.waited)
            await asyncio.sleep(seconds)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.waited += time.monotonic() - self._since
        if not self._waiting:
            await self.report("", self.waited)


class RetriedCall:
    """One model call, retried until it succeeds, fails for another reason, or exceeds the time for retries.

    Each try of the call is preceded by `await_admission`, and followed by `note_usage` or `wait_after`.

    Attributes:
        unavailable: why the model was given up; None: it was not.
    """

    def __init__(self, retries: Retries, model: str) -> None:
        self.unavailable: Failure | None = None
        self._retries = retries
        self._model = model
        self._first_failed_at: float | None = None
        self._throttled = 0.0
        self._failed_tries = 0
        self._reservation = Reservation()

    async def await_admission(self) -> None:
        """Wait until rate limits admit the call.

        A back-off that outlasts the time for retries is not awaited: the call is made at once.
        """
        while isinstance(hold := await self._retries.limiter.reserve(self._model), Hold):
            if hold.is_back_off and hold.seconds > self._seconds_left():
                return
            began = time.monotonic()
            seconds = hold.seconds * (1 + JITTER * random.random())  # noqa: S311 - chance, not a secret
            await self._retries.wait(seconds, f"{hold.reason}. It is asked after {seconds:.0f} s.")
            if not hold.is_back_off and self._failed_tries:
                self._throttled += time.monotonic() - began
        self._reservation = hold or Reservation()

    async def note_usage(self, response: LlmResponse) -> None:
        """Count the tokens of a response."""
        if response.usage_metadata is not None and not response.partial:
            usage = response.usage_metadata
            counts = count_tokens(lambda name: getattr(usage, name, None))
            await self._settle_reservation(counts.get("total", 0))

    async def wait_after(self, error: Exception) -> bool:
        """Wait before a retry; return False if the call must not be retried: a wrong key does not become right."""
        await self._settle_reservation(0)
        if is_access_refused(error):
            reason = describe_error(error).rstrip(".")
            message = f"No access to {self._model}: {reason}.\n{NO_ACCESS_HINT}"
            self.unavailable = Failure(NO_MODEL_ACCESS, message)
            return False
        if not is_temporary(error):
            return False
        self._failed_tries += 1
        self._first_failed_at = self._first_failed_at or time.monotonic()
        reason = f"{self._model} could not be asked: {describe_error(error)}"
        if requested := _requested_wait(error):
            await self._retries.limiter.note_back_off(self._model, requested, reason.rstrip("."))
        seconds = seconds_before_retry(error, self._failed_tries)
        if seconds > self._seconds_left():
            times = f"{self._failed_tries} time{'s' * (self._failed_tries != 1)}"
            limit = f"retry_seconds is {self._retries.limit_s:g}."
            tries = f"It was asked {times} in {self._retry_seconds():.0f} seconds; {limit}"
            self.unavailable = Failure(MODEL_UNAVAILABLE, f"{reason}\n{tries}")
            return False
        seconds *= 1 + JITTER * random.random()  # noqa: S311 - chance, not a secret
        await self._retries.wait(seconds, f"{reason.rstrip('.')}. It is asked again after {seconds:.0f} s.")
        return True

    def _seconds_left(self) -> float:
        """Return the seconds in which the call may be retried."""
        limit_s = self._retries.limit_s
        return math.inf if limit_s is None else limit_s - self._retry_seconds()

    def _retry_seconds(self) -> float:
        """Return the seconds since the first failure, without waits for configured limits."""
        if self._first_failed_at is None:
            return 0.0
        return time.monotonic() - self._first_failed_at - self._throttled

    async def _settle_reservation(self, tokens: int) -> None:
        await self._retries.limiter.settle(self._model, self._reservation, tokens)
        self._reservation = Reservation()


class RetryPlugin(BasePlugin):
    """Admits and retries the model calls of an agent.

    It precedes all other plugins: they, and the agent's error callbacks, see only the final error.

    Attributes:
        unavailable: why a model was given up; None: none was.
    """

    def __init__(self, retries: Retries, *, is_replayed: bool = False) -> None:
        """Prepare the plug-in. `is_replayed`: models answer from a recording, so rate limits do not apply."""
        super().__init__(name="devui_model_retry")
        self.unavailable: Failure | None = None
        self._retries = retries
        self._is_replayed = is_replayed
        self._calls: dict[int, RetriedCall] = {}
        self._with_answer: set[int] = set()
        self._last_errors: dict[int, tuple[Exception, Exception]] = {}

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Await admission. Turn off the retries of google-genai's client, unless the agent configures them."""
        self._with_answer.discard(id(callback_context.actions))
        _adk.disable_client_retries(llm_request)
        if not self._is_replayed:
            call = self._calls[id(callback_context.actions)] = RetriedCall(
                self._retries, llm_request.model or ""
            )
            await call.await_admission()

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Note that a call has answered, and its tokens. If it fails later it is not retried: it would answer twice."""
        self._with_answer.add(id(callback_context.actions))
        if call := self._calls.get(id(callback_context.actions)):
            await call.note_usage(llm_response)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Retry a call until it succeeds; return None to keep the error."""
        if id(callback_context.actions) in self._with_answer:
            return None
        model = await _adk.resolve_model(callback_context)
        call = self._calls.get(id(callback_context.actions)) or RetriedCall(self._retries, model.model)
        last = error
        while await call.wait_after(last):
            await call.await_admission()
            try:
                async with aclosing(model.generate_content_async(llm_request, stream=False)) as responses:
                    return join_responses([response async for response in responses])
            except Exception as another:
                last = another
        self.unavailable = self.unavailable or call.unavailable
        if last is not error:
            self._last_errors[id(error)] = error, last
        return None

    def find_last_error(self, error: BaseException) -> BaseException:
        """Return the last error of the call that first raised this error: ADK raises the first."""
        return self._last_errors.get(id(error), (error, error))[1]


def join_responses(responses: Sequence[LlmResponse]) -> LlmResponse:
    """Return one response with the parts of all: a model may stream several, a callback returns one."""
    if len(responses) < 2:
        return next(iter(responses), LlmResponse())
    parts = [
        part
        for response in responses
        for part in (response.content.parts if response.content else None) or []
    ]
    return responses[-1].model_copy(update={"content": types.Content(role="model", parts=parts)})


def seconds_before_retry(error: BaseException, calls: int) -> float:
    """Return the seconds to wait after `calls` calls: as the service asks, else twice as long each time."""
    return _requested_wait(error) or min(FIRST_WAIT_S * 2 ** min(calls - 1, 30), MAX_WAIT_S)


def _requested_wait(error: BaseException) -> float | None:
    """Return the wait that a service requests by `Retry-After`, or by `RetryInfo` in the body of Google's APIs."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(
        error, "headers", None
    )
    with suppress(AttributeError, OverflowError, TypeError, ValueError):
        values = {str(name).lower(): str(value) for name, value in headers.items()}
        if retry_after := values.get("retry-after"):
            return _parse_retry_after(retry_after)
    with suppress(AttributeError, KeyError, OverflowError, TypeError, ValueError):
        details: Any = getattr(error, "details", None)
        for detail in details["error"]["details"]:
            if isinstance(detail, Mapping) and str(detail.get("@type", "")).endswith("RetryInfo"):
                return _parse_retry_after(str(detail["retryDelay"]).removesuffix("s"))
    return None


def _parse_retry_after(value: str) -> float:
    """Return the seconds of a number or until an HTTP date, at most `MAX_REQUESTED_S`.

    Raises:
        ValueError: the value is neither; NaN and Infinity are refused, too.
        OverflowError: a number in the date is too large.
    """
    with suppress(ValueError):
        if math.isfinite(seconds := float(value)):
            return min(max(seconds, 0.0), MAX_REQUESTED_S)
    seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), MAX_REQUESTED_S)
