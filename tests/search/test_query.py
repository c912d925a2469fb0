"""The query language: valid queries are parsed, others are refused at the position of the error."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.search.query.completion import Vocabulary, complete
from sessions_app.search.query.correction import names_in, remark_names, remark_unknown_names
from sessions_app.search.query.parsing import MAX_LENGTH, parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import Field, Query, StateTerm, When, Word
from sessions_app.search.query.times import parse_duration, parse_time
from sessions_app.store.database import tokens
from sessions_app.store.models import Scope

PIECES = st.sampled_from(
    [
        *'"\\ .-!~=<>:[]{}\n',
        *(
            "->",
            "!=",
            ">=",
            "[0]",
            "user:",
            "app:",
            "temp:",
            "session:",
            "kind:",
            "is:",
            "x",
            "error",
            "events",
        ),
        *("updated:", "ever", "never", "missing", "東京", "3", "-2.5", "true", "null", '{"a":', "[1]", "2h"),
        *("\ud800", "\x00", "\u202e", "１"),
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("user:ann", Field("user", "ann")),
        ("USER:Ann", Field("user", "Ann")),
        ("agent:planner", Field("author", "planner")),
        ('app:"my app"', Field("app", "my app")),
        ("-tool:get_weather", Field("tool", "get_weather", negated=True)),
        ("kind:Tool-Call", Field("kind", "tool_call")),
        ("events > 100", Field("events", "100", ">")),
        ("tokens<=0200", Field("tokens", "200", "<=")),
        ('tag:"To  Do"', Field("tag", "to do")),
        ("duration>=1.5h", Field("duration", "1.5h", ">=")),
        ("duration>500ms", Field("duration", "500ms", ">")),
        ("updated:<2h", Field("updated", "2h", "<")),
        ("sunny", Word("sunny")),
        ('-"no such city"', Word("no such city", negated=True)),
        ("weath*", Word("weath", is_prefix=True)),
        ('-"no such cit"*', Word("no such cit", negated=True, is_prefix=True)),
        ('"weath*"', Word("weath*")),
        ("東*", Word("東", is_prefix=True)),
        ("10:30", Word("10:30")),
        ("https://example.com/a?b", Word("https://example.com/a?b")),
        ("TypeError:", Word("TypeError:")),
        ('"OR"', Word("OR")),
        ('-"--verbose"', Word("--verbose", negated=True)),
        ("東京", Word("東京")),
        ("user:tier = gold", StateTerm(Scope.USER, "tier", op="=", value="gold")),
        ("user:tier=gold", StateTerm(Scope.USER, "tier", op="=", value="gold")),
        ("app:limit>=2.5", StateTerm(Scope.APP, "limit", op=">=", value=2.5)),
        ("retries > 3 ever", StateTerm(Scope.SESSION, "retries", op=">", value=3, when=When.EVER)),
        ("retries > 3 NEVER", StateTerm(Scope.SESSION, "retries", op=">", value=3, when=When.NEVER)),
        ("order_id missing", StateTerm(Scope.SESSION, "order_id", when=When.MISSING)),
        ("user:x never", StateTerm(Scope.USER, "x", when=When.NEVER)),
        (
            "user:preferences.theme = dark",
            StateTerm(Scope.USER, "preferences.theme", op="=", value="dark"),
        ),
        (
            "cart->items[0].sku = 3",
            StateTerm(Scope.SESSION, "cart", ("items", 0, "sku"), "=", 3),
        ),
        ('cart->[2]."a.b" != x', StateTerm(Scope.SESSION, "cart", (2, "a.b"), "!=", "x")),
        ('n = "3"', StateTerm(Scope.SESSION, "n", op="=", value="3")),
        ("n = null", StateTerm(Scope.SESSION, "n", op="=", value=None)),
        ("n == true", StateTerm(Scope.SESSION, "n", op="=", value=True)),
        ('n = ["a", 1]', StateTerm(Scope.SESSION, "n", op="=", value=["a", 1])),
        ("n ~ 12", StateTerm(Scope.SESSION, "n", op="~", value="12")),
        ('"tool:calls" = 2', StateTerm(Scope.SESSION, "tool:calls", op="=", value=2)),
        ('"events" > 2', StateTerm(Scope.SESSION, "events", op=">", value=2)),
        ("url = http://x?a=b&c", StateTerm(Scope.SESSION, "url", op="=", value="http://x?a=b&c")),
    ],
)
def test_term_is_parsed_as_meant_and_formatted_canonically(text, term):
    assert parse(text) == Query((term,))
    assert parse(str(term)) == Query((term,))


def test_terms_are_listed_side_by_side():
    query = parse('  sunny  user:tier = gold ever kind:error -"a b"  user:ann ')
    assert str(query) == 'sunny user:tier = gold ever kind:error -"a b" user:ann'
    assert [word.text for word in query.words] == ["sunny", "a b"]
    assert [term.name for term in query.fields] == ["kind", "user"]
    assert [term.name for term in query.states] == ["user:tier"]


def test_blank_text_asks_for_nothing():
    assert parse(" \n ").is_empty
    assert str(Query()) == ""


def test_query_can_request_eval_attempts():
    assert parse("is:eval").wants_evals
    assert not parse("-is:eval").wants_evals


@pytest.mark.parametrize(
    ("text", "wrong", "message"),
    [
        ("a usr:ann b", "usr:", "did you mean 'user'?"),
        ("kind:eror", "kind:eror", "did you mean 'error'?"),
        ("is:pinnd x", "is:pinnd", "did you mean 'pinned'?"),
        ("zzz:foo", "zzz:", "There is no term 'zzz'."),
        ('x "unclosed', '"unclosed', "not closed"),
        ("= 3", "=", "The key before"),
        ("user:tier =", "=", "The value after"),
        ("updated:2h", "updated:2h", "compared with < or >"),
        ("updated:<soon", "updated:<soon", "not a duration"),
        ("after:soon", "after:soon", "not a day or time"),
        ("events>many", "events>many", "not a whole number"),
        ("app:", "app:", "needs a value"),
        ("retries:3", "retries:", "There is no term 'retries'."),
        ("events>9999999999999", "events>9999999999999", "at most 12 digits"),
        ("cart->[0000000000009999999999999999999] = 7", "", "not a path"),
        ("x = 3 missing", " missing", "cannot be followed by missing"),
        ("x > true", "true", "compares numbers and texts"),
        ("cart-> = 3", "cart->", "not a path"),
        ("cart->a..b = 3", "cart->a..b", "not a path"),
        ("cart->a = [1", "[1", "not a JSON"),
        ("temp:x = 3", "temp:x", "temporary"),
        ("session:abc = 3", "=", "takes no comparison"),
        ("x = 1e999", "1e999", "too large"),
        ('""', '""', "no letter or digit"),
        ('"', '"', "not closed"),
        ('-"', '"', "not closed"),
        ("- app:weather", "-", "no letter or digit"),
        ("()", "()", "no letter or digit"),
        ("*", "*", "no letter or digit"),
        ("a we* b", "we*", "begins too many words"),
        ("->", "->", "no letter or digit"),
        ('-"!!!"', '-"!!!"', "no letter or digit"),
        ("\N{PARTY POPPER}", "\N{PARTY POPPER}", "no letter or digit"),
        ("a AND b", "AND", "There is no AND"),
        ("NOT a", "NOT", "There is no NOT"),
        ("a OR b", "OR", "There is no OR"),
    ],
)
def test_invalid_term_is_refused_with_its_position(text, wrong, message):
    with pytest.raises(QueryError, match=re.escape(message)) as refusal:
        parse(text)
    if wrong:
        assert text[refusal.value.start : refusal.value.end] == wrong


@given(TEXTS)
def test_every_keyword_can_be_searched_as_text(text):
    """One that could not would find nothing, and everything with a minus sign before it."""
    try:
        query = parse(text)
    except QueryError:
        return
    assert all(tokens.parse_phrase(word.text) for word in query.words)


@pytest.mark.parametrize("text", ["x " * MAX_LENGTH, "a" * 2_000_000, "x " * 60])
def test_a_query_of_a_megabyte_or_of_many_terms_is_refused(text):
    with pytest.raises(QueryError, match="at most"):
        parse(text)


@given(TEXTS)
def test_any_text_is_a_query_or_a_problem_with_a_place_in_it(text):
    try:
        query = parse(text)
    except QueryError as problem:
        place = range(len(text) + 1)
        assert (problem.start in place, problem.end in place) == (True, True)  # noqa: PT017 - either will do
    else:
        assert parse(str(query)) == query
        assert str(parse(str(query))) == str(query)


@given(TEXTS, st.integers(min_value=-1, max_value=60))
def test_completion_works_for_any_text_and_caret(text, caret):
    vocabulary = Vocabulary(apps=["my app", "weather"], keys=["user:tier", 'odd "key"', "x"])
    for offer in complete(text, caret, vocabulary):
        assert 0 <= offer.start <= offer.end <= len(text)


@pytest.mark.parametrize(
    ("text", "completions"),
    [
        ("us", ["user:", "user:tier"]),
        ("kind:to", ["kind:tool_call", "kind:tool_result"]),
        ("app:", ['app:"my app"', "app:weather", "app:limit"]),
        ("sunny -is:p", ["is:pinned"]),
        ("user:t", ["user:tom", "user:tier"]),
        ("user:tier mi", ["missing"]),
        ("retries ", ["=", "!=", ">", "<", "~", "ever", "missing", "never"]),
        ("odd", ['"odd key"']),
        ("retries > ", []),
    ],
)
def test_completion_at_the_end_of_a_text(text, completions):
    vocabulary = Vocabulary(
        apps=["my app", "weather"],
        users=["ann", "tom"],
        keys=["app:limit", "odd key", "retries", "user:tier"],
    )
    offers = [offer.text for offer in complete(text, len(text), vocabulary)]
    assert offers[: len(completions)] == completions if completions else offers == []


def test_completion_replaces_word_and_keeps_its_minus_sign():
    (offer, *_) = complete("a -too b", 6, Vocabulary())
    assert ("a -too b"[offer.start : offer.end], offer.text) == ("too", "tool:")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("tool:get_wether sunny", "tool:get_weather sunny"),
        ("user:ANN", "user:ann"),
        ("reports > 1", "user:reports > 1"),
        ("-user:Reports missing", "-user:reports missing"),
        ("user:teir = gold", "user:tier = gold"),
        ("key:teir", "key:user:tier"),
        ("key:temp:tier", "key:user:tier"),
        ("zzz ever", ""),
    ],
)
def test_unknown_name_suggests_the_closest_one(text: str, suggestion: str):
    names = Vocabulary(users=["ann"], tools=["get_weather"], keys=["cart", "user:reports", "user:tier"])
    query = parse(text)
    (remark,) = remark_unknown_names(query, names, names_in(query))
    assert remark.suggestion == suggestion
    assert not suggestion or str(parse(suggestion)) == suggestion


def test_only_unknown_names_are_remarked():
    query = parse("tool:zip -user:zoe order_id missing")
    assert names_in(query) == [("tool", "zip"), ("user", "zoe"), ("key", "order_id")]
    remarks = remark_unknown_names(query, Vocabulary(), {("key", "order_id")})
    assert [remark.message for remark in remarks] == ["No state has a key 'order_id'."]


def test_negative_terms_with_unknown_names_are_reported_differently():
    query = parse(
        "tool:a -tool:b k1 = 3 k2 != 3 -k3 = 3 k4 > 3 ever k5 > 3 never k6 missing -k7 missing k8 never"
    )
    assert [name for _, name in names_in(query, only_negative=True)] == ["b", "k3", "k5", "k6", "k8"]


def test_words_that_are_names_suggest_their_terms():
    vocabulary = Vocabulary(users=["ann"], tools=["look"], keys=["user:tier"], tags=["todo"])

    def meant(text: str) -> list[str]:
        return [remark.suggestion for remark in remark_names(parse(text), vocabulary)]

    assert meant("sunny look") == ["sunny tool:look"]
    assert meant("-ann") == ["-user:ann"]
    assert meant("TODO") == ["tag:todo"]
    assert meant('"user:tier"') == ["user:tier ever"]
    assert meant("a pinned b") == ["a is:pinned b"]
    assert meant("tool:look nothing user:tier = 3") == []


def test_days_are_days_in_utc_and_spans_count_back_from_now():
    assert parse_time("2026-11-01") == 1793491200.0
    assert parse_time("2026-11-01T01:00+01:00") == 1793491200.0
    assert parse_time("today", now=1793491200.0 + 3600) == 1793491200.0
    assert parse_time("yesterday", now=1793491200.0 + 3600) == 1793491200.0 - 86400
    assert parse_duration("1.5h") == 5400
    assert parse_duration("90") == 90
    assert parse_duration("250ms") == 0.25
    assert abs(parse_time("2h") - (time.time() - 7200)) < 60
