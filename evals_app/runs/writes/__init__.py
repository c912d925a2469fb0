"""The service functions that change evalsets, eval runs, attempts and results. Each is one transaction.

Every change of a run or of one of its attempts increments the run's revision under its row's lock, so a page that
knows revision n can ask for newer changes and misses none.
"""
