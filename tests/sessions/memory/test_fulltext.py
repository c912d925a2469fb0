"""The full-text index on both databases: exact matches, and writes through Django."""

from __future__ import annotations

import random

import pytest
from django.db import connection

from sessions_app.store import memory_entries, scopes
from sessions_app.store.database import full_text
from sessions_app.store.database import tokens as search
from sessions_app.store.database.full_text import IndexEntry
from sessions_app.store.models import MemoryEntry
from tests.sessions.memory.phrases import contains_phrase

pytestmark = pytest.mark.django_db(transaction=True)

ANN, BOB = memory_entries.make_owner("", "office", "ann"), memory_entries.make_owner("", "office", "bob")


def remember(*texts: str, owner: memory_entries.MemoryOwner = ANN) -> list[int]:
    """Store texts and return their pks."""
    content = scopes.canonicalize({"parts": []})
    drafts = [memory_entries.NewEntry(f"e{n}", "user", 1.0, content, text) for n, text in enumerate(texts)]
    memory_entries.add_entries(owner, "s1", drafts)
    rows = MemoryEntry.objects.filter(user_id=owner.user_id)
    pks = dict(rows.values_list("entry_id", "pk"))
    return [pks[draft.entry_id] for draft in drafts]


def find(
    query: str, *, owner: memory_entries.MemoryOwner = ANN, every: bool = True, limit: int = 1000
) -> list[int]:
    return full_text.find_ranked(
        MemoryEntry, full_text.owner_id(*owner), search.parse_phrases(query), limit, every=every
    )


def test_terms_combine_with_all_or_any():
    both, first, _ = remember("red apple", "red car", "green")
    assert find("red apple") == [both]
    assert find("red apple", every=False) == [both, first]


def test_a_term_of_several_tokens_is_a_phrase():
    first, second, third = remember("call get_weather now", "weather: get it", "東京都の天気")
    assert find("get_weather") == [first]
    assert set(find("get weather")) == {first, second}
    assert find("東京都") == [third]
    assert find("京都府") == []


def test_an_owner_finds_nothing_of_another():
    (anns,), (bobs,) = remember("plan"), remember("plan", owner=BOB)
    assert (find("plan"), find("plan", owner=BOB)) == ([anns], [bobs])


def test_an_owners_mark_is_no_word():
    remember("plan")
    mark = full_text.owner_id(*ANN)
    assert find(mark) == find(f"={mark}") == find(f"owner:{mark}") == []


def test_reindexed_row_matches_only_its_new_text():
    (pk,) = remember("old")
    full_text.index_rows(MemoryEntry, [IndexEntry(pk, full_text.owner_id(*ANN), "new")])
    assert (find("old"), find("new")) == ([], [pk])
    full_text.unindex_rows(MemoryEntry, [pk])
    assert find("new") == []


def test_search_matches_exactly_the_rows_of_its_terms():
    chance = random.Random(7)
    alphabet = "東京都会議天気한국어aab  、1_"
    texts = ["".join(chance.choices(alphabet, k=chance.randint(1, 25))) for _ in range(150)]
    pks = remember(*texts)
    for _ in range(150):
        query = "".join(chance.choices(alphabet, k=chance.randint(1, 6)))
        terms = search.parse_phrases(query)
        says = {pk for pk, text in zip(pks, texts, strict=True) if terms and holds(terms, text)}
        assert set(find(query)) == says, query


def holds(terms: list[search.Phrase], text: str) -> bool:
    tokens = search.tokenize(text)
    return all(contains_phrase(term, tokens) for term in terms)


def test_index_can_be_dropped_and_rebuilt():
    index = next(index for index in MemoryEntry._meta.indexes if isinstance(index, full_text.WordIndex))
    with connection.schema_editor() as editor:
        editor.remove_index(MemoryEntry, index)
    with connection.schema_editor() as editor:
        editor.add_index(MemoryEntry, index)
    (pk,) = remember("plan")
    assert find("plan") == [pk]


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="only on SQLite does Django rebuild tables")
def test_the_index_survives_a_rebuild_of_the_table():
    (pk,) = remember("plan")
    author = MemoryEntry._meta.get_field("author")
    with connection.schema_editor() as editor:
        editor._remake_table(MemoryEntry, alter_fields=[(author, author)])
    assert find("plan") == [pk]
