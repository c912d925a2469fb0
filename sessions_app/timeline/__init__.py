"""Reads for the session page: events around a cursor, what to show of each, one in full, the state at it.

Nothing here writes, and no list selects an event's `data`: the cost of a page is that of the rows it shows,
whatever the length of the session.
"""
