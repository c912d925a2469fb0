"""Tags of cases: a list of strings under `devui_tags`, which ADK ignores. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TAGS = "devui_tags"
"""Field of a case for its tags."""

UNTAGGED = "untagged"
"""Name of the cases without a tag."""

MAX_TAG_LENGTH = 50


def read_tags(case: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags of a case (JSON, snake case). Values that are no tags, as in versions of old, are left out."""
    tags = case.get(TAGS)
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()


def sort_tags(tags: Iterable[str]) -> list[str]:
    """Return the distinct tags in order, `untagged` last; [] if there is no other one."""
    names = set(tags)
    if not names - {UNTAGGED}:
        return []
    return sorted(names, key=lambda tag: (tag == UNTAGGED, tag))


def split_tags(text: str) -> list[str]:
    """Return the tags of a text in which commas separate them; repetitions are left out."""
    return list(dict.fromkeys(tag for part in text.split(",") if (tag := part.strip())))


def require_tag(tag: str) -> str:
    """Return a tag if it is valid.

    Raises:
        ValueError: it is not.
    """
    if not tag:
        raise ValueError("is an empty tag: write a word or omit it")
    if len(tag) > MAX_TAG_LENGTH:
        raise ValueError(f"is longer than {MAX_TAG_LENGTH} characters: shorten the tag")
    if tag != tag.strip() or not tag.isprintable():
        raise ValueError("begins or ends with a space, or has a control character: omit it")
    if "," in tag or '"' in tag:
        raise ValueError("has a comma or a quotation mark, which separate tags: omit it")
    if tag == UNTAGGED:
        raise ValueError("is the name of the cases without tags: choose another word")
    return tag


def require_distinct_tags(tags: Sequence[str]) -> Sequence[str]:
    """Return the tags of a case if there are no repetitions.

    Raises:
        ValueError: there are.
    """
    if repeated := [tag for tag, count in Counter(tags).items() if count > 1]:
        raise ValueError(f"has the tag {repeated[0]!r} more than once: omit the repetition")
    return tags
