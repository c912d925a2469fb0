"""The query language of the search box: read, written in one form, corrected and completed. Pure.

    user:tier = gold  tool:get_weather  errors>0  updated:<2h  "no such city"

Every term must hold. docs/search.md describes the language.
"""

from sessions_app.search.query.completion import Completion, Spot, Vocabulary, complete, spot
from sessions_app.search.query.correction import Name, Remark, named, names_in, starred, timed, typed, unknown
from sessions_app.search.query.parsing import MAX_LENGTH, parse
from sessions_app.search.query.query_errors import QueryProblem
from sessions_app.search.query.terms import Field, Query, StateTerm, Term, When, Word, tag_name
from sessions_app.search.query.times import moment, span

__all__ = [
    "MAX_LENGTH",
    "Completion",
    "Field",
    "Name",
    "Query",
    "QueryProblem",
    "Remark",
    "Spot",
    "StateTerm",
    "Term",
    "Vocabulary",
    "When",
    "Word",
    "complete",
    "moment",
    "named",
    "names_in",
    "parse",
    "span",
    "spot",
    "starred",
    "tag_name",
    "timed",
    "typed",
    "unknown",
]
