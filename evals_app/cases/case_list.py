"""List of an evalset's cases, filtered by text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evals_app.files.tags import UNTAGGED, read_tags, sort_tags


@dataclass(frozen=True)
class ListedCase:
    """Row of the list. `place` is the index of the case in the file."""

    place: int
    id: str
    turns: int
    scenario: bool
    says: str
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class CaseList:
    """The cases that match a search, in the order of the file.

    Attributes:
        text: the search: words of ids and texts, and `tag:NAME`, or `tag:"NAME"`, for cases with a tag.
        cases: the cases that match.
        total: number of cases of the evalset.
        tags: (tag, the search for it, number of cases) of the evalset, `untagged` last; [] without any.
    """

    text: str
    cases: Sequence[ListedCase]
    total: int
    tags: Sequence[tuple[str, str, int]] = ()

    @classmethod
    def search(
        cls, summaries: Sequence[Mapping[str, Any]], contents: Sequence[Mapping[str, Any]], text: str = ""
    ) -> Self:
        """Return the cases that match a search.

        Args:
            summaries: of all cases (`library.case_summaries`).
            contents: of all cases in the same order; empty for an invalid file.
            text: the search; empty: all cases.
        """
        wanted_tags, needle = _parse_search(text)
        cases = [
            ListedCase(
                index,
                **{name: summary[name] for name in _SHOWN},
                tags=read_tags(contents[index]) if index < len(contents) else (),
            )
            for index, summary in enumerate(summaries)
        ]
        counts = Counter(tag for case in cases for tag in case.tags or (UNTAGGED,))
        cases = [case for case in cases if wanted_tags <= set(case.tags or (UNTAGGED,))]
        if needle:
            cases = [case for case in cases if _matches_text(case, contents, needle)]
        return cls(
            text.strip(),
            cases,
            len(summaries),
            [(tag, _format_tag_search(tag), counts[tag]) for tag in sort_tags(counts)],
        )


_SHOWN = ("id", "turns", "scenario", "says")
_TAG = re.compile(r'(?:^|(?<=\s))tag:(?:"([^"]*)"|(\S+))')


def _format_tag_search(tag: str) -> str:
    """Return the search for the cases with a tag."""
    return f'tag:"{tag}"' if " " in tag else f"tag:{tag}"


def _parse_search(text: str) -> tuple[set[str], str]:
    """Return the tags of a search, and its other words in lower case."""
    tags = {quoted or word for quoted, word in _TAG.findall(text)}
    return tags, " ".join(_TAG.sub("", text).split()).casefold() if tags else text.strip().casefold()


def _matches_text(case: ListedCase, contents: Sequence[Mapping[str, Any]], needle: str) -> bool:
    if needle in case.id.casefold():
        return True
    texts = _iter_texts(contents[case.place]) if case.place < len(contents) else iter((case.says,))
    return any(needle in text.casefold() for text in texts)


def _iter_texts(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value, not the names of its fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)
