"""Differences between the state at two points in time: first keys, keys by id, changed keys, counts.

A scope may have 100,000 keys, of which a page shows a few dozen: the database compares values, and counts the keys that
are not shown. Two values are equal if their canonical JSON text is (`scopes.canonical`): 1 and 1.0 differ, as do 1 and
true.
"""
