"""Every search term, its negation and pairs of terms find the same sessions as a plain Python oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import pytest

from sessions_app.store.sessions import writes
from tests.search.conftest import Find
from tests.timeline.story import Story

USERS = ("ann", "ben", "cat")


@dataclass
class Told:
    """What happened in a session; users share theirs."""

    words: set[str] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    now: dict[str, Any] = field(default_factory=dict)
    ever: set[tuple[str, Any]] = field(default_factory=set)

    def write(self, key: str, value: object) -> None:
        self.now[key] = value
        self.ever.add((key, value))

    def had(self, key: str) -> bool:
        return any(name == key for name, _ in self.ever)


@pytest.fixture
def world(db: None) -> dict[str, tuple[Told, Told]]:
    """Return sessions by id, each with its user's. One of them lacks what all others have: the seventh."""
    random = Random(7)
    users = {name: Told() for name in USERS}
    world = {}
    for number in range(10):
        user, facts = USERS[number % 3], Told()
        world[f"s{number}"] = (facts, users[user])
        story = Story(f"s{number}", user=user)
        is_odd = number == 7
        for turn in range(3):
            words = {"cloudy" if is_odd else "sunny", random.choice(["rome", "oslo"]), f"turn{turn}"}
            story.says(" ".join(sorted(words)))
            facts.words |= words
            delta: dict[str, object] = {"k": random.randrange(4)}
            if not is_odd:
                delta["everywhere"] = "yes"
            if user != "cat":
                delta["user:tier"] = random.choice(["gold", "basic"])
            if random.random() < 0.5:
                story.calls("look", f"c{turn}")
                facts.tools.add("look")
            story.add(delta=delta)
            for key, value in delta.items():
                (users[user] if key.startswith("user:") else facts).write(key, value)
        if random.random() < 0.5:
            writes.edit_state(story.key, {}, removed=["k"])
            del facts.now["k"]
    story = Story("elsewhere", user="ann", realm="eval/1")
    story.says("sunny")
    return world


TERMS: dict[str, Callable[[Told, Told], bool]] = {
    "sunny": lambda own, user: "sunny" in own.words,
    "cloudy": lambda own, user: "cloudy" in own.words,
    "rome": lambda own, user: "rome" in own.words,
    '"turn0"': lambda own, user: True,
    "kind:agent": lambda own, user: True,
    "kind:user": lambda own, user: False,
    "tool:look": lambda own, user: "look" in own.tools,
    "k missing": lambda own, user: "k" not in own.now,
    "k ever": lambda own, user: own.had("k"),
    "k = 2": lambda own, user: own.now.get("k") == 2,
    "k > 1 ever": lambda own, user: any(key == "k" and value > 1 for key, value in own.ever),
    "k > 1 never": lambda own, user: not any(key == "k" and value > 1 for key, value in own.ever),
    "k >= 0": lambda own, user: "k" in own.now,
    "k >= 0 never": lambda own, user: not own.had("k"),
    "k < 2": lambda own, user: own.now.get("k", 2) < 2,
    "k <= 0": lambda own, user: own.now.get("k", 2) <= 0,
    "k > 0": lambda own, user: own.now.get("k", 0) > 0,
    "k < 9 never": lambda own, user: not own.had("k"),
    "k != 9": lambda own, user: "k" in own.now,
    "k != 2": lambda own, user: own.now.get("k", 2) != 2,
    "k != 2 never": lambda own, user: not any(key == "k" and value != 2 for key, value in own.ever),
    "everywhere = yes": lambda own, user: "everywhere" in own.now,
    "everywhere = yes never": lambda own, user: not own.had("everywhere"),
    "everywhere missing": lambda own, user: "everywhere" not in own.now,
    "everywhere never": lambda own, user: not own.had("everywhere"),
    "everywhere != no": lambda own, user: "everywhere" in own.now,
    "nowhere missing": lambda own, user: True,
    "nowhere ever": lambda own, user: False,
    "user:tier missing": lambda own, user: "user:tier" not in user.now,
    "user:tier ever": lambda own, user: user.had("user:tier"),
    "user:tier never": lambda own, user: not user.had("user:tier"),
    "user:tier = gold": lambda own, user: user.now.get("user:tier") == "gold",
    "app:tier missing": lambda own, user: True,
    "title:turn": lambda own, user: False,
}
ALL = {
    **TERMS,
    **{f"-{text}": (lambda own, user, is_so=is_so: not is_so(own, user)) for text, is_so in TERMS.items()},
}


def test_terms_and_pairs_match_the_oracle(find: Find, world: dict[str, tuple[Told, Told]]):
    pairs = Random(3).sample(list(combinations(ALL, 2)), 40)
    for texts in [*((text,) for text in ALL), *pairs]:
        expected = [name for name, facts in world.items() if all(ALL[text](*facts) for text in texts)]
        assert find(" ".join(texts)) == expected, texts
