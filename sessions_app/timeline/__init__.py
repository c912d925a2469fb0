"""Read models of the session page: windows of events, the inspector, the state board, comparisons.

Nothing here writes, and no list loads an event's `data`: the cost of a page depends on the rows it shows, not on the
length of the session.
"""
