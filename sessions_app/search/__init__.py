"""The query language of the search box, its execution, and the indexes behind it."""
