"""State at any point in time, from the ledger: its history, differences between two points, and drift.

A scope may have 100,000 keys, of which a page shows a few dozen: the database compares values, and counts the keys that
are not shown. Two values are equal if their canonical JSON text is (`scopes.canonicalize`): 1 and 1.0 differ, as do
1 and true.
"""
