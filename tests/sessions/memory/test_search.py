"""Words of texts and queries. Pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.store.database import tokens as search
from sessions_app.store.database.tokens import Phrase
from tests.sessions.memory.phrases import contains_phrase


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("東京都", ["東京", "京都", "都"]),
        ("会", ["会"]),
        ("私はPythonを使う", ["私は", "は", "python", "を使", "使う", "う"]),
        ("북경 회의에서", ["북경", "경", "회의", "의에", "에서", "서"]),
        ("get_weather v1.5", ["get", "weather", "v1", "5"]),
        ("ﾃｽﾄ １２３ Ｆｕｌｌ", ["テス", "スト", "ト", "123", "full"]),
        ("Straße İ", ["strasse", "i\u0307"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("soft\u00adhyphen zero\u200dwidth", ["softhyphen", "zerowidth"]),
        ("葛\U000e0100城", ["葛城", "城"]),
        ("ไทย", ["ไท", "ทย", "ย"]),
        ("a\x00b \ud800 ・「」 🎉 \U000e0041", ["a", "b"]),
        ("", []),
    ],
)
def test_a_text_is_indexed_by(text: str, tokens: list[str]):
    assert search.tokenize(text) == tokens


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("Hello world", [Phrase(("hello",)), Phrase(("world",))]),
        ("get_weather", [Phrase(("get", "weather"))]),
        ("京", [Phrase(("京",), prefix=True)]),
        ("東京", [Phrase(("東京",))]),
        ("東京都", [Phrase(("東京", "京都"))]),
        ("第3回", [Phrase(("第", "3", "回"), prefix=True)]),
        ("第3回目", [Phrase(("第", "3", "回目"))]),
        ("会議、議", [Phrase(("会議", "議", "議"), prefix=True)]),
        ("Pythonを", [Phrase(("python", "を"), prefix=True)]),
        ("天 天", [Phrase(("天",), prefix=True)]),
        ("\"'() AND - * :", [Phrase(("and",))]),
        ("\x00 \n", []),
    ],
)
def test_a_query_asks_for(query: str, terms: list[Phrase]):
    assert search.parse_phrases(query) == terms


def test_recall_searches_each_token_separately():
    assert search.single_tokens(search.parse_phrases("東京都 weather report")) == [
        Phrase(("東京",)),
        Phrase(("京都",)),
        Phrase(("weather",)),
        Phrase(("report",)),
    ]


def test_recall_leaves_out_lone_characters_beside_longer_tokens():
    assert search.single_tokens(search.parse_phrases("第3回 の 会議")) == [Phrase(("3",)), Phrase(("会議",))]
    assert search.single_tokens(search.parse_phrases("猫")) == [Phrase(("猫",), prefix=True)]


def test_expressions_of_both_databases():
    terms = search.parse_phrases("get_weather 東京都 京")
    assert search.fts5_match(terms) == '"get weather" AND "東京 京都" AND "京" *'
    assert search.fts5_match(terms, every=False) == '"get weather" OR "東京 京都" OR "京" *'
    assert search.tsquery(terms) == (
        "('get' <-> 'weather' | ('\ue001' & 'get' & 'weather')) &"
        " ('東京' <-> '京都' | ('\ue001' & '東京' & '京都')) & ('京':*)"
    )
    assert search.tsvector(["東京", "京都", "都"]) == "'東京':1 '京都':2 '都':3"


def test_a_long_text_and_a_long_query_are_bounded():
    assert len(search.tokenize("word " * 1_000_001)) == search.MAX_TOKENS
    assert len(search.parse_phrases(" ".join(f"w{n}" for n in range(5_000)))) == search.MAX_PHRASES
    assert all(
        len(token.encode()) <= search.TOKEN_BYTES for token in search.tokenize("é" * 500 + " " + "x" * 500)
    )


@given(st.text())
def test_tokens_contain_no_query_syntax(text: str):
    for token in search.tokenize(text):
        assert token
        assert not set(token) & set("\"'\\ ()*:&|!<>=\x00")


@given(st.text(alphabet="東京都会議a1 、한국ไทย", max_size=30), st.data())
def test_every_part_of_a_cjk_run_is_found(text: str, data: st.DataObject):
    runs = [run for run in text.replace("、", " ").replace("a", " ").replace("1", " ").split() if run]
    if not runs:
        return
    run = data.draw(st.sampled_from(runs))
    start = data.draw(st.integers(0, len(run) - 1))
    piece = run[start : data.draw(st.integers(start + 1, len(run)))]
    (term,) = search.parse_phrases(piece)
    assert contains_phrase(term, search.tokenize(text))
