"""The query language of the search box: parsing, canonical text, correction and completion. Pure.

    user:tier = gold  tool:get_weather  errors>0  updated:<2h  "no such city"

All terms must match. docs/search.md describes the language.
"""

from sessions_app.search.query.completion import CaretWord, Completion, Vocabulary, complete, word_at_caret
from sessions_app.search.query.correction import Name, Remark, names_in, remark_names, remark_unknown_names
from sessions_app.search.query.parsing import MAX_LENGTH, parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import Field, Query, StateTerm, Term, When, Word, tag_name
from sessions_app.search.query.times import parse_duration, parse_time

__all__ = [
    "MAX_LENGTH",
    "CaretWord",
    "Completion",
    "Field",
    "Name",
    "Query",
    "QueryError",
    "Remark",
    "StateTerm",
    "Term",
    "Vocabulary",
    "When",
    "Word",
    "complete",
    "names_in",
    "parse",
    "parse_duration",
    "parse_time",
    "remark_names",
    "remark_unknown_names",
    "tag_name",
    "word_at_caret",
]
