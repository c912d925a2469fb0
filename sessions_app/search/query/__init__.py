"""The query language of the search box: parsing, canonical text, correction and completion. Pure.

    user:tier = gold  tool:get_weather  errors>0  updated:<2h  "no such city"

All terms must match. docs/search.md describes the language.
"""
