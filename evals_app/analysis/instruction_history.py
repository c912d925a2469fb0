"""The instructions that the agents of an app have had, from recorded model calls, with what came of each. Read-only.

A request has an instruction with filled placeholders, and texts that ADK adds. Requests are grouped by the declared
instruction that they were filled from, if it is known: that of the agent as it was last loaded, or of a variant.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db.models import Count, F, Max, Min, Q, QuerySet, Sum, Value
from django.db.models.functions import Floor, StrIndex, Substr

from evals_app.analysis.instruction_versions import (
    KEY_LENGTH,
    InstructionTemplate,
    InstructionVersion,
    iter_templates,
    make_version,
)
from evals_app.analysis.statistics import Rate
from evals_app.models import RETRY, EvalAttempt, EvalRun
from evals_app.runs.attempt_status import HAS_OUTCOME
from evals_app.variants.variant import Variant
from sessions_app.agents import cards
from sessions_app.prices import current_prices
from sessions_app.prices.costs import usages_cost
from sessions_app.store import realms
from sessions_app.store.errors import NotFound
from sessions_app.store.events.call_usage import CALL_COLUMNS, DAY_S, CallUsage, recorded_call_usage
from sessions_app.store.models import AgentSession, ModelCall, ModelPiece
from sessions_app.traces.answer_sources import declared_instructions
from sessions_app.traces.model_calls import instruction_text

MAX_CALLS = 20_000
"""Newest calls of an app that are read."""

MAX_TEXTS = 800
"""Most different texts that are read, those of the newest calls."""

MAX_RUN_VARIANTS = 200
"""Newest runs of variants whose instructions are known."""

TEXTS_PER_QUERY = 400

SHA_KEY = '"system_instruction":"'
SHA_LENGTH = 32
"""Name of the piece with the instruction in a recorded request (`content_store`)."""


@dataclass(frozen=True)
class InstructionHistory:
    """The instructions of the agents of an app.

    Attributes:
        versions: by agent, those used last first.
        omitted_calls: number of calls with older texts, which were not read.
        is_cut: there are older calls, which were not read.
    """

    versions: Mapping[str, Sequence[InstructionVersion]]
    omitted_calls: int = 0
    is_cut: bool = False

    def find_version(self, key: str) -> InstructionVersion:
        """Return the version with a key.

        Raises:
            NotFound: there is none.
        """
        for version in (version for versions in self.versions.values() for version in versions):
            if version.key == key:
                return version
        raise NotFound(
            f"No recorded call has the instruction {key[:KEY_LENGTH]!r}.",
            hint="Open the instructions from the page of the agent.",
        )


class _UsedText(NamedTuple):
    """Totals of an agent's calls in a session with one text of its instruction and one model on one day."""

    session: int
    agent: str
    model: str
    sha: str
    day: float
    calls: int
    first_at: float
    last_at: float
    tokens: Sequence[int]


def read_instruction_history(app_name: str) -> InstructionHistory:
    """Return the instructions that the agents of an app have had. At most eight queries."""
    calls, is_cut = _find_calls(app_name)
    used_texts = sorted(_read_used_texts(calls), key=lambda used: -used.last_at)
    sessions_by_sha: dict[str, int] = {}
    for used in used_texts:
        sessions_by_sha.setdefault(used.sha, used.session)
    newest = dict(list(sessions_by_sha.items())[:MAX_TEXTS])
    texts = _read_texts(newest)
    groups = _group_texts(app_name, [used for used in used_texts if used.sha in newest], texts)
    outcomes = _read_outcomes(app_name)
    prices = current_prices()
    versions: dict[str, list[InstructionVersion]] = defaultdict(list)
    for version, parts in groups:
        _sum_parts(version, parts)
        version.cost = usages_cost(_sum_usages(parts), prices)
        judged = [passed for session in version.sessions for passed in outcomes.get(session, ())]
        version.rate = Rate(sum(judged), len(judged))
        versions[version.agent].append(version)
    for of_agent in versions.values():
        of_agent.sort(key=lambda version: -version.last_at)
    omitted_calls = sum(used.calls for used in used_texts if used.sha not in newest)
    return InstructionHistory(dict(versions), omitted_calls, is_cut)


def _find_calls(app_name: str) -> tuple[QuerySet[ModelCall], bool]:
    """Return the newest calls of an app, and whether there are older ones."""
    sessions = realms.exclude_hidden(AgentSession.objects.filter(app_name=app_name))
    calls = ModelCall.objects.filter(session__in=sessions).order_by()
    oldest = calls.order_by("-pk").values_list("pk", flat=True)[MAX_CALLS : MAX_CALLS + 1].first()
    return (calls, False) if oldest is None else (calls.filter(pk__gt=oldest), True)


def _read_used_texts(calls: QuerySet[ModelCall]) -> Iterator[_UsedText]:
    position = StrIndex("request", Value(SHA_KEY))
    rows = (
        calls.annotate(position=position)
        .filter(position__gt=0)
        .annotate(
            sha=Substr("request", F("position") + len(SHA_KEY), SHA_LENGTH),
            day=Floor(F("started_at") / DAY_S),
        )
        .values_list("session", "agent", "model", "sha", "day")
        .annotate(
            Count("pk"), Min("started_at"), Max("started_at"), *(Sum(column) for column in CALL_COLUMNS)
        )
    )
    for row in rows.iterator():
        yield _UsedText._make((*row[:8], row[8:]))


def _read_texts(sessions_by_sha: Mapping[str, int]) -> dict[str, str]:
    """Return the instructions of pieces by hash; each is read from one of its sessions."""
    texts: dict[str, str] = {}
    named = list(sessions_by_sha.items())
    for start in range(0, len(named), TEXTS_PER_QUERY):
        chunk = named[start : start + TEXTS_PER_QUERY]
        pieces = Q(sha__in=[sha for sha, _ in chunk], session__in={session for _, session in chunk})
        for sha, body in ModelPiece.objects.filter(pieces).values_list("sha", "body"):
            texts[sha] = instruction_text(json.loads(body))
    return texts


def _group_texts(
    app_name: str, used_texts: Iterable[_UsedText], texts: Mapping[str, str]
) -> Iterable[tuple[InstructionVersion, list[_UsedText]]]:
    """Return the versions of instructions, each with its uses."""
    description = cards.read_description(app_name)
    nodes = {str(node.get("name")): node for node in cards.iter_agents(description)}
    patches = _read_patches(app_name)
    declared: dict[str, dict[str, str]] = {}
    templates: dict[str, list[InstructionTemplate]] = {}
    versions: dict[tuple[str, str], InstructionVersion] = {}
    parts: dict[str, list[_UsedText]] = defaultdict(list)
    by_text: dict[tuple[str, str], InstructionVersion] = {}
    for used in used_texts:
        agent = used.agent
        if agent not in declared:
            declared[agent] = declared_instructions(description, nodes.get(agent, {}))
            templates[agent] = list(iter_templates(declared[agent], patches.get(agent, ())))
        if (agent, used.sha) not in by_text:
            version = make_version(agent, texts.get(used.sha, ""), declared[agent], templates[agent])
            by_text[agent, used.sha] = versions.setdefault((agent, version.key), version)
        parts[by_text[agent, used.sha].key].append(used)
    return [(version, parts[version.key]) for version in versions.values()]


def _read_patches(app_name: str) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the changes of variants that were run, by agent, each with the name of its variant."""
    runs = EvalRun.objects.filter(app_name=app_name).exclude(variant_hash="").order_by("-created_at")
    patches: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for text in runs.values_list("variant", flat=True)[:MAX_RUN_VARIANTS]:
        variant = Variant.from_json(text)
        for agent, fields in variant.patch.items():
            patches[agent].append((variant.name, dict(fields)))
    return patches


def _sum_parts(version: InstructionVersion, parts: Iterable[_UsedText]) -> None:
    for part in parts:
        version.texts.add(part.sha)
        version.sessions.add(part.session)
        version.calls += part.calls
        version.tokens += part.tokens[-1]
        version.first_at = min(version.first_at, part.first_at)
        version.last_at = max(version.last_at, part.last_at)


def _sum_usages(parts: Iterable[_UsedText]) -> Iterator[CallUsage]:
    """Yield the usage of each model on each day, which has one price."""
    by_price: dict[tuple[str, float], list[_UsedText]] = defaultdict(list)
    for part in parts:
        by_price[part.model, part.day].append(part)
    for (model, day), same_price in by_price.items():
        sums = map(sum, zip(*(part.tokens for part in same_price), strict=True))
        tokens = dict(zip(CALL_COLUMNS, sums, strict=True))
        if usage := recorded_call_usage(ModelCall(model=model, started_at=day * DAY_S, **tokens)):
            calls = sum(part.calls for part in same_price)
            counts = {"calls": calls, "unclear": calls * usage.tokens["unclear"]}
            yield replace(usage, tokens={**usage.tokens, **counts})


def _read_outcomes(app_name: str) -> Mapping[int, list[bool]]:
    """Return for each session whether its eval attempt passed, of the newest attempts. Retries do not count."""
    attempts = EvalAttempt.objects.filter(HAS_OUTCOME, run__app_name=app_name, session__isnull=False)
    rows = attempts.exclude(run__source=RETRY).order_by("-pk").values_list("session", "status")
    outcomes: dict[Any, list[bool]] = defaultdict(list)
    for session, status in rows[:MAX_CALLS]:
        outcomes[session].append(status == EvalAttempt.Status.PASSED)
    return outcomes
