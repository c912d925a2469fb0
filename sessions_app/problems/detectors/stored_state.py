"""Detectors of state that may be stored in the wrong scope or form.

Their notes are hints: they say "may", because the author of the agent knows better.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from sessions_app.problems.registry import (
    Detector,
    DetectorScope,
    Link,
    Problem,
    Severity,
    detector,
    links_to_writes,
)
from sessions_app.problems.state_evidence import KeyEvidence, KeyWriteEvidence, StateEvidence, is_by_hand
from sessions_app.store import scopes
from sessions_app.store.models import Scope

LARGE_BYTES = 8_192
DEEP_LEVELS = 5
LINKS_SHOWN = 4
MIN_SAME_SESSIONS = 3
"""Number of the user's sessions with an equal value, including this one, from which it is reported."""

LONELY_WRITES = 3


Check = Callable[[StateEvidence], Iterable[Problem]]


def hint(code: str, title: str, *, remedy: str) -> Callable[[Check], Detector]:
    """Make a detector of the decorated function that gives hints about the state."""
    return detector(code, title, remedy=remedy, severity=Severity.NOTE, scope=DetectorScope.STATE)


USER_NAMES = frozenset(
    (
        *("username", "user_name", "first_name", "last_name", "full_name", "nickname", "preferred_name"),
        *("email", "e_mail", "email_address", "phone", "phone_number", "home_address", "postal_address"),
        *("birthday", "birth_date", "date_of_birth", "language", "locale", "timezone", "time_zone"),
        *("preferences", "user_preferences", "preferred_language", "preferred_units"),
    )
)
INTERMEDIATE_WORDS = frozenset(("tmp", "temp", "temporary", "scratch", "scratchpad", "intermediate"))
COMMON_VALUES = frozenset(("null", "true", "false", '""', "[]", "{}", "0", "1"))


@hint(
    "user-data",
    "May be about the user",
    remedy="If it holds for all of this user's sessions, keep it under a `user:` key; what is said in"
    " passing can go to memory.",
)
def user_data(evidence: StateEvidence) -> Iterator[Problem]:
    """Find session keys named like facts about the user, or with the same value in the user's other sessions."""
    holders: dict[str, list[tuple[str, Link]]] = defaultdict(list)
    for same_value in evidence.same_values:
        link = Link("event", 0, "also here", same_value.session_pk, same_value.session_id)
        holders[same_value.key].append((same_value.user_id, link))
    for key in evidence.of(Scope.SESSION):
        same = holders[key.key]
        own_sessions = [link for user, link in same if user == evidence.user_id]
        is_repeated = (
            len(own_sessions) + 1 >= MIN_SAME_SESSIONS
            and len(own_sessions) == len(same)
            and key.text not in COMMON_VALUES
        )
        if is_repeated:
            text = f"has the same value in {len(own_sessions) + 1} sessions of this user, and in no other user's."
            links = [*links_to_writes(key.writes[:1]), *own_sessions[:LINKS_SHOWN]]
            yield Problem(text, key=key.name, links=links)
        elif _is_user_fact(key.key) and any(map(is_by_hand, key.writes)):
            text = "is named like a fact about the user, but ends with this session."
            yield Problem(text, key=key.name, links=links_to_writes(key.writes[:1]))


def _is_user_fact(key: str) -> bool:
    """Return whether a key is named like a fact about the user: `email`, `userEmail`."""
    words = _split_words(key)
    bare = words[1:] if words[:1] == ["user"] else words
    return "_".join(words) in USER_NAMES or "_".join(bare) in USER_NAMES


@hint(
    "intermediate",
    "May be intermediate data",
    remedy="If nothing needs it after the invocation, a `temp:` key is enough, which is never stored.",
)
def intermediate(evidence: StateEvidence) -> Iterator[Problem]:
    """Find keys named as temporary, and keys emptied again within an invocation."""
    for key in evidence.of(Scope.SESSION):
        words = set(_split_words(key.key)) & INTERMEDIATE_WORDS
        is_number = key.text[0] in "-0123456789"
        if words and not (words == {"temp"} and is_number):
            text = f"is called “{min(words)}”, but is stored for the whole session."
            yield Problem(text, key=key.name, links=links_to_writes(key.writes[:1]))
        elif emptied := _emptying_pair(key.writes):
            text = "was filled and emptied again within one invocation."
            yield Problem(text, key=key.name, links=links_to_writes(emptied))


def _emptying_pair(writes: Sequence[KeyWriteEvidence]) -> list[KeyWriteEvidence]:
    """Return the newest two writes by agents that filled and then emptied a key in one invocation."""
    for late, early in pairwise(writes):
        together = bool(late.invocation_id) and late.invocation_id == early.invocation_id
        if together and late.is_empty and not early.is_empty and is_by_hand(late):
            return [early, late]
    return []


@hint(
    "temp-lost",
    "Needed after its invocation",
    remedy="Keep it without `temp:` if a later invocation needs it, or write it again before it is read.",
)
def temp_lost(evidence: StateEvidence) -> Iterator[Problem]:
    """Find `temp:` keys that a later invocation needed: its instruction names them, or it failed without them."""
    first: dict[str, int] = {}
    written_in: dict[str, set[str]] = defaultdict(set)
    for write in evidence.temp_keys:
        first.setdefault(write.name, write.seq)
        written_in[write.name].add(write.invocation_id)
    for name, seq in first.items():
        missed = [*_missed_by_instructions(evidence, name, seq, written_in[name])]
        missed += [
            Link("event", failure.seq, "failed without it")
            for failure in evidence.failures
            if failure.seq > seq
            and failure.invocation_id not in written_in[name]
            and re.search(rf"{re.escape(name)}(?!\w)", failure.text)
        ]
        if missed:
            text = "was written in one invocation and needed in a later one, where it had no value."
            links = [Link("event", seq, "written"), *missed[:LINKS_SHOWN]]
            yield Problem(text, key=name, links=links)


def _missed_by_instructions(
    evidence: StateEvidence, name: str, seq: int, invocation_ids: set[str]
) -> Iterator[Link]:
    for reading in evidence.instruction_keys:
        if reading.name != name:
            continue
        for invocation in evidence.invocations:
            if (
                invocation.first_seq > seq
                and invocation.id not in invocation_ids
                and reading.agent in invocation.authors
            ):
                text = f"the instruction of {reading.agent} names it"
                yield Link("event", invocation.first_seq, text)


@hint(
    "app-contested",
    "Overwritten by several users' sessions",
    remedy="The last writer wins, for everyone. If it is about one user, a `user:` key keeps it apart; if"
    " it counts or collects, a tool with a store of its own loses nothing.",
)
def app_contested(evidence: StateEvidence) -> Iterator[Problem]:
    """Find `app:` keys that sessions of several users gave different values, except growing counters."""
    for key in evidence.of(Scope.APP):
        writes = [write for write in key.writes if is_by_hand(write)]
        users = {write.user_id for write in writes}
        if len(users) < 2 or len({write.value for write in writes}) < 2 or _is_growing(writes):
            continue
        newest: dict[str, KeyWriteEvidence] = {}
        for write in writes:
            newest.setdefault(write.user_id, write)
        text = f"was written by sessions of {len(users)} users in its last {len(key.writes)} writes."
        yield Problem(text, key=key.name, links=links_to_writes(list(newest.values())[:LINKS_SHOWN]))


def _is_growing(writes: Sequence[KeyWriteEvidence]) -> bool:
    """Return whether every write gave a higher number than the one before: none was lost."""
    numbers = [write.value or "" for write in writes]
    return all(map(str.isdecimal, numbers)) and all(
        int(late) > int(early) for late, early in pairwise(numbers)
    )


@hint(
    "user-lonely",
    "May belong to this session",
    remedy="If other sessions of the user do not need it, keep it without `user:`.",
)
def user_lonely(evidence: StateEvidence) -> Iterator[Problem]:
    """Find `user:` keys that only this session writes, again and again."""
    if not evidence.other_sessions:
        return
    for key in evidence.of(Scope.USER):
        writes = [write for write in key.writes if is_by_hand(write)]
        is_own = bool(writes) and all(write.session_pk == evidence.session_pk for write in key.writes)
        turns = {write.invocation_id for write in writes}
        if is_own and len(turns) >= LONELY_WRITES:
            number = evidence.other_sessions
            other_sessions = "another session" if number == 1 else f"{number} other sessions"
            text = (
                f"has its last {len(writes)} writes from this session alone; the user has {other_sessions}."
            )
            yield Problem(text, key=key.name, links=links_to_writes([writes[-1], writes[0]]))


@hint(
    "naming",
    "Inconsistent name",
    remedy="Agree on one spelling: state keys are compared letter by letter, and a misspelt one is a new key.",
)
def naming(evidence: StateEvidence) -> Iterator[Problem]:
    """Find similar names in one scope, and names in an unusual style."""
    for scope in Scope:
        keys = list(evidence.of(scope))
        findings = dict(_similar_names(keys))
        for name, hint in _odd_styles(keys).items():
            findings.setdefault(name, hint)
        yield from findings.values()


def _similar_names(keys: Sequence[KeyEvidence]) -> Iterator[tuple[str, Problem]]:
    alike: dict[tuple[object, ...], list[KeyEvidence]] = defaultdict(list)
    for key in keys:
        words = _split_words(key.key)
        if words:
            alike[("words", *words)].append(key)
            alike[("number", _json_type(key.text), *words[:-1], _singular_word(words[-1]))].append(key)
    for group in alike.values():
        for key in group if len({key.key for key in group}) > 1 else []:
            other = next(key_evidence for key_evidence in group if key_evidence.key != key.key)
            text = f"differs little from `{other.name}`: two keys, or one that is misspelt?"
            links = links_to_writes([*key.writes[:1], *other.writes[:1]])
            yield key.name, Problem(text, key=key.name, links=links)


def _odd_styles(keys: Sequence[KeyEvidence]) -> dict[str, Problem]:
    styled = [(key, style) for key in keys if (style := _name_style(key.key))]
    counts = {style: sum(key_style == style for _, key_style in styled) for _, style in styled}
    if len(counts) < 2:
        return {}
    usual = max(counts, key=lambda style: counts[style])
    if counts[usual] < 4 * (len(styled) - counts[usual]):
        return {}
    text = f"is spelt otherwise than the other {counts[usual]} of its scope, which are {usual}."
    return {
        key.name: Problem(text, key=key.name, links=links_to_writes(key.writes[:1]))
        for key, style in styled
        if style != usual
    }


@hint(
    "nesting",
    "Deeply nested",
    remedy="Split it into several keys: a delta replaces a whole value, nothing is merged.",
)
def nesting(evidence: StateEvidence) -> Iterator[Problem]:
    """Find values nested deeper than `DEEP_LEVELS`."""
    for key in evidence.keys:
        levels = nesting_depth(key.text)
        if levels > DEEP_LEVELS:
            yield Problem(
                f"is nested {levels} levels deep.", key=key.name, links=links_to_writes(key.writes[:1])
            )


@hint(
    "large",
    "Large value",
    remedy="Save it as an artifact and keep its name in the state, or split the key: every write stores the whole"
    " value again, and what is for search belongs in memory.",
)
def large(evidence: StateEvidence) -> Iterator[Problem]:
    """Find values above `LARGE_BYTES`."""
    for key in evidence.keys:
        if key.size > LARGE_BYTES:
            text = f"is {key.size:,} bytes large; from {LARGE_BYTES:,} on, state is a slow place for it."
            yield Problem(text, key=key.name, links=links_to_writes(key.writes[:1]))


@hint(
    "not-json",
    "Is not JSON",
    remedy="Store text, numbers, lists or dicts: what is shown is what later reads get.",
)
def not_json(evidence: StateEvidence) -> Iterator[Problem]:
    """Find values that were converted to JSON."""
    for key in evidence.keys:
        if key.note and key.note != scopes.RENAMED:
            text = (
                f"was written as something that JSON does not have ({key.note}) and is kept as its JSON form."
            )
            yield Problem(text, key=key.name, links=links_to_writes(key.writes[:1]))


def nesting_depth(text: str) -> int:
    """Return the nesting depth of objects and arrays in a JSON text, which may be cut off."""
    deepest = level = 0
    for sign in _STRING.sub("", text):
        if sign in "{[":
            level += 1
            deepest = max(deepest, level)
        elif sign in "}]":
            level -= 1
    return deepest


_STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)', re.DOTALL)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")


def _split_words(key: str) -> list[str]:
    """Return the words of a name in any style, in lower case."""
    return [word.lower() for word in _WORD.findall(key)]


def _singular_word(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _name_style(key: str) -> str:
    """Return the style in which a name joins its words; empty for a single word."""
    if not key.isascii() or len(_split_words(key)) < 2:
        return ""
    for sign, style in (("_", "snake_case"), ("-", "kebab-case"), (".", "dotted")):
        if sign in key:
            return style
    return "camelCase" if re.fullmatch(r"\w*[a-z][A-Z]\w*", key) else ""


def _json_type(text: str) -> str:
    """Return the type of a JSON text by its first character."""
    return {"{": "object", "[": "array", '"': "text"}.get(text[0], "other")
