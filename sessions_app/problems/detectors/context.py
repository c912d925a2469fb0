"""Detectors of problems with the context of model requests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from sessions_app.problems.evidence import Evidence, ModelRequest
from sessions_app.problems.registry import Link, Problem, detector


@detector(
    "lost-cache",
    "Context cache was lost",
    remedy="Move changing content (times, state values) out of the instruction, to the end of the request: a cache is"
    " valid only while the beginning of the request stays the same.",
)
def lost_cache(evidence: Evidence) -> Iterator[Problem]:
    """Find requests without cached tokens whose predecessor had some and began differently."""
    previous = dict(evidence.previous_requests)
    for request in evidence.requests:
        before = previous.get(request.agent)
        previous[request.agent] = request
        if before is None or not before.cached_tokens or request.cached_tokens or not request.prompt_tokens:
            continue
        if changes := _changed_parts(before, request):
            yield Problem(
                f"{request.agent} had {before.cached_tokens:,} cached tokens, and none in the next request:"
                f" {' and '.join(changes)} changed.",
                agent=request.agent,
                links=[
                    Link("request", request.pk, "what changed"),
                    Link("request", before.pk, "request before it"),
                ],
            )


def _changed_parts(before: ModelRequest, request: ModelRequest) -> list[str]:
    """Return the names of the parts that differ at the beginning of two requests."""
    same = {
        "the model": before.model == request.model,
        "the instruction": before.instruction == request.instruction,
        "the tools": before.tools_sha == request.tools_sha,
    }
    changes = [name for name, is_same in same.items() if not is_same]
    if before.contents is not None and request.contents is not None:
        number = next(
            (
                content_number
                for content_number, (old, new) in enumerate(
                    zip_longest(before.contents, request.contents), start=1
                )
                if old is not None and old != new
            ),
            0,
        )
        changes += [f"content {number:,} of the conversation"] if number else []
    return changes
