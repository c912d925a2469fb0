"""The query language: what is meant is read, what cannot be meant is refused where it stands, with a way out."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.models import Scope
from sessions_app.search.query import (
    MAX_LENGTH,
    Field,
    Query,
    QueryError,
    StateTerm,
    Vocabulary,
    When,
    Word,
    complete,
    names_in,
    parse,
    parse_duration,
    parse_time,
    remark_names,
    remark_stars,
    remark_times,
    remark_unknown_names,
    remark_value_types,
)
from sessions_app.store import tokens

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
        ("tokens>10k", Field("tokens", "10000", ">")),
        ("tokens<=2M", Field("tokens", "2000000", "<=")),
        ('tag:"To  Do"', Field("tag", "to do")),
        ("duration>=1.5h", Field("duration", "1.5h", ">=")),
        ("duration>500ms", Field("duration", "500ms", ">")),
        ("updated:<2h", Field("updated", "2h", "<")),
        ("sunny", Word("sunny")),
        ('-"no such city"', Word("no such city", negated=True)),
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
    ("text", "wrong", "said", "suggestion"),
    [
        ("a usr:ann b", "usr:", "did you mean 'user'?", "a user:ann b"),
        ("kind:eror", "kind:eror", "did you mean 'error'?", "kind:error"),
        ("is:pinnd x", "is:pinnd", "did you mean 'pinned'?", "is:pinned x"),
        ("zzz:foo", "zzz:", "There is no term 'zzz'.", '"zzz:foo"'),
        ('x "unclosed', '"unclosed', "not closed", 'x "unclosed"'),
        ("= 3", "=", "The key before", ""),
        ("=x", "=", "The key before", '"=x"'),
        ("user:tier =", "=", "The value after", ""),
        ("updated:2h", "updated:2h", "compared with < or >", "updated:<2h"),
        ("updated:<soon", "updated:<soon", "not a duration", ""),
        ("after:soon", "after:soon", "not a day or time", ""),
        ("events>many", "events>many", "not a whole number", ""),
        ("app:", "app:", "needs a value", ""),
        ("x app: weather y", "app:", "needs a value", "x app:weather y"),
        ("is: app:weather", "is:", "needs a value", ""),
        ("is:failed", "is:failed", "did you mean 'error'?", "is:error"),
        ("retries:3", "retries:", "There is no term 'retries'.", '"retries:3"'),
        ("events>9999999999999", "events>9999999999999", "at most 12 digits", ""),
        ("duration > 1 s", "duration > 1 s", "There is a space between 1 and its unit", "duration>1s"),
        ("updated:<2 h x", "updated:<2 h", "There is a space between 2 and its unit", "updated:<2h x"),
        ("retries => 3", "=>", "did you mean '>='?", "retries >= 3"),
        ("events=<3", "=<", "did you mean '<='?", "events<=3"),
        ("-user:tier <> gold", "<>", "did you mean '!='?", "-user:tier != gold"),
        ("cart->[0000000000009999999999999999999] = 7", "", "not a path", ""),
        ("x = 3 missing", " missing", "cannot be followed by missing", ""),
        ("x > true", "true", "compares numbers and texts", ""),
        ("cart-> = 3", "cart->", "not a path", ""),
        ("cart->a..b = 3", "cart->a..b", "not a path", ""),
        ("cart->a = [1", "[1", "not a JSON", 'cart->a = "[1"'),
        ("temp:x = 3", "temp:x", "temporary", ""),
        ("session:abc = 3", "=", "takes no comparison", "abc = 3"),
        ("kind:error = 3", "=", "takes no comparison", '"kind:error" = 3'),
        ("x = 1e999", "1e999", "too large", ""),
        ('""', '""', "nothing between", ""),
        ('" "', '" "', "nothing between", ""),
        ('"', '"', "not closed", ""),
        ('-"', '"', "not closed", ""),
        ('tool:get_weather"', '"', "not closed", "tool:get_weather"),
        ("-", "-", "no letter or digit", ""),
        ("- app:weather", "-", "no letter or digit", "-app:weather"),
        ("() OR b", "()", "no letter or digit", ""),
        ("'; DROP TABLE x; --", "';", "no letter or digit", "DROP TABLE x;"),
        ("--", "--", "no letter or digit", ""),
        ("()", "()", "no letter or digit", ""),
        ("*", "*", "no letter or digit", ""),
        ("->", "->", "no letter or digit", ""),
        ('-"!!!"', '-"!!!"', "no letter or digit", ""),
        ("\N{PARTY POPPER}", "\N{PARTY POPPER}", "no letter or digit", ""),
        ("sunny - rain", "-", "no letter or digit", "sunny rain"),
        ("sunny & rain", "&", "no letter or digit", "sunny rain"),
        ("a --verbose", "--", "two minus signs", 'a "--verbose"'),
        ("a AND b", "AND", "There is no AND", "a b"),
        ("NOT a", "NOT", "There is no NOT", "-a"),
        ("a OR b", "OR", "There is no OR", ""),
    ],
)
def test_invalid_term_is_refused_with_position_and_suggestion(text, wrong, said, suggestion):
    with pytest.raises(QueryError) as refusal:
        parse(text)
    problem = refusal.value
    assert not problem.suggestion or parse(problem.suggestion)
    if wrong:
        assert text[problem.start : problem.end] == wrong
    assert said in problem.message
    assert problem.suggestion == suggestion


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
    known = Vocabulary(apps=["my app", "weather"], keys=["user:tier", 'odd "key"', "x"])
    for offer in complete(text, caret, known):
        assert 0 <= offer.start <= offer.end <= len(text)


@pytest.mark.parametrize(
    ("text", "offered"),
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
def test_completion_at_the_end_of_a_text(text, offered):
    known = Vocabulary(
        apps=["my app", "weather"],
        users=["ann", "tom"],
        keys=["app:limit", "odd key", "retries", "user:tier"],
    )
    found = [offer.text for offer in complete(text, len(text), known)]
    assert found[: len(offered)] == offered if offered else found == []


def test_a_completion_replaces_the_word_at_the_caret_and_leaves_its_minus_sign():
    (offer, *_) = complete("a -too b", 6, Vocabulary())
    assert ("a -too b"[offer.start : offer.end], offer.text) == ("too", "tool:")


def test_unknown_names_suggest_close_known_ones():
    known = Vocabulary(tools=["get_weather"], keys=["user:tier"])
    remarks = remark_unknown_names(parse("tool:get_wether user:teir = gold sunny"), known)
    assert [remark.suggestion for remark in remarks] == [
        "tool:get_weather user:teir = gold sunny",
        "tool:get_wether user:tier = gold sunny",
    ]
    assert "did you mean 'get_weather'" in remarks[0].message
    assert remark_unknown_names(parse("tool:get_weather user:tier missing"), known) == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("user:ANN", "user:ann"),
        ("reports > 1", "user:reports > 1"),
        ("-user:Reports missing", "-user:reports missing"),
        ("user:tiers = gold", "user:tier = gold"),
        ("key:teir", "key:user:tier"),
        ("key:temp:tier", "key:user:tier"),
        ("cart.sku = 7", "cart->sku = 7"),
        ("cart.0.sku = 7", "cart->[0].sku = 7"),
        ("cart.lines.12 ~ tea", "cart->lines[12] ~ tea"),
        ("cart[0].sku != 7 ever", "cart->[0].sku != 7 ever"),
        ("tool = look", "tool:look"),
        ("-agent != ann", "author:ann"),
        ('title ~ "a b" never', '-title:"a b"'),
        ("updated < 2h", "updated:<2h"),
        ("updated = 2h", ""),
        ("kind = 7", ""),
        ("weather never rains", 'weather "never" rains'),
        ("weather never", ""),
        ("zzz ever", ""),
    ],
)
def test_unknown_name_has_suggestion(text: str, meant: str):
    known = Vocabulary(users=["ann"], keys=["cart", "report", "user:reports", "user:tier"])
    (remark,) = remark_unknown_names(parse(text), known)
    assert remark.suggestion == meant
    assert not meant or str(parse(meant)) == meant


def test_existing_names_outside_the_vocabulary_are_accepted():
    query = parse("tool:zip -user:zoe order_id missing")
    assert names_in(query) == [("tool", "zip"), ("user", "zoe"), ("key", "order_id")]
    remarks = remark_unknown_names(query, Vocabulary(), existing={("tool", "zip"), ("user", "zoe")})
    assert [remark.message for remark in remarks] == ["No state has a key 'order_id'."]


def test_negative_terms_with_unknown_names_are_reported_differently():
    query = parse(
        "tool:a -tool:b k1 = 3 k2 != 3 -k3 = 3 k4 > 3 ever k5 > 3 never k6 missing -k7 missing k8 never"
    )
    assert [name for _, name in names_in(query, only_negative=True)] == ["b", "k3", "k5", "k6", "k8"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("user:tier = gold ever", "user:tier ~ gold ever"),
        ('retries = "3"', "retries = 3"),
        ("retries = 3", 'retries = "3"'),
    ],
)
def test_value_with_another_meaning_is_reported(text: str, meant: str):
    (remark,) = remark_value_types(parse(text), Vocabulary(keys=["user:tier", "retries"]))
    assert remark.suggestion == meant


@pytest.mark.parametrize("text", ["retries = true", 'retries = ""', "retries > 3", "unheard = of", "gold"])
def test_other_values_are_not_reported(text: str):
    assert remark_value_types(parse(text), Vocabulary(keys=["user:tier", "retries"])) == []


def test_literal_star_is_reported():
    (remark,) = remark_stars(parse("weath* rain"))
    assert remark.message == "'weath*': a star is not a wildcard; only whole words match."


def test_tag_is_recognized_in_any_spelling():
    assert remark_unknown_names(parse('tag:"To Do"'), Vocabulary(tags=["to do"])) == []


def test_words_that_are_names_suggest_their_terms():
    known = Vocabulary(
        users=["ann"], tools=["look"], keys=["user:tier"], tags=["todo"], ids={"e-12": "invocation"}
    )

    def meant(text: str) -> list[str]:
        return [remark.suggestion for remark in remark_names(parse(text), known)]

    assert meant("sunny look") == ["sunny tool:look"]
    assert meant("-ann") == ["-user:ann"]
    assert meant("TODO") == ["tag:todo"]
    assert meant('"user:tier"') == ["user:tier ever"]
    assert meant("e-12") == ["invocation:e-12"]
    assert "the id of an invocation" in remark_names(parse("e-12"), known)[0].message
    assert meant("user:tier") == ["user:tier ever"]
    assert meant("a pinned b") == ["a is:pinned b"]
    assert meant("tool:look nothing user:tier = 3") == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("retries > 3 at any time", "retries > 3 ever"),
        ("-user:tier = gold At Some Point tool:look", "-user:tier = gold ever tool:look"),
        ("note ~ rain anytime x", "note ~ rain ever x"),
        ("cart->items[0].sku = 7 at no time", "cart->items[0].sku = 7 never"),
        ("retries > 3 always", "retries <= 3 never"),
        ("user:tier = gold at all times", "user:tier != gold never"),
    ],
)
def test_natural_words_for_tense_suggest_the_languages_own(text: str, meant: str):
    (remark,) = remark_times(parse(text))
    assert remark.suggestion == meant
    assert str(parse(meant)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "retries > 3 ever always",
        "retries > 3 at home",
        "at any time",
        "note ~ rain always",
        "retries > 3 -anytime",
        "retries missing always",
    ],
)
def test_words_without_tense_are_text(text: str):
    assert remark_times(parse(text)) == []


def test_of_names_that_search_may_not_have_read_yet_nothing_is_denied():
    known = Vocabulary(apps=["weather"], tools=["look"], is_whole=False)
    tool, app = remark_unknown_names(parse("tool:lok app:wether"), known)
    assert (
        tool.message
        == "Some sessions are not indexed yet. Of the others none has the tool 'lok': did you mean 'look'?"
    )
    assert app.message.startswith("No session has the app 'wether'")


def test_days_are_days_in_utc_and_spans_count_back_from_now():
    assert parse_time("2026-11-01") == 1793491200.0
    assert parse_time("2026-11") == 1793491200.0
    assert parse_time("2026-11-01T01:00+01:00") == 1793491200.0
    assert parse_time("today", now=1793491200.0 + 3600) == 1793491200.0
    assert parse_time("yesterday", now=1793491200.0 + 3600) == 1793491200.0 - 86400
    assert parse_duration("1.5h") == 5400
    assert parse_duration("90") == 90
    assert parse_duration("250ms") == 0.25
    assert abs(parse_time("2h") - (time.time() - 7200)) < 60
