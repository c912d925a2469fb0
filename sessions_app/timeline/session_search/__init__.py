"""Search within a session: matching events, their count, and the hits around the selected event.

A session may have a million events, and not every term has an index. So at most a window of events is read, counting
has a limit, and a scan that exceeds its time budget returns its position, from which the next request continues.
"""
