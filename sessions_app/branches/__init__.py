"""Branches of a session: taking it back (`rewind`), going on elsewhere (`fork`), laying two side by side (`compare`).

Rewinds and forks are appended or new, and written by `sessions_app.writes`: nothing is rewritten. `compare` only reads.
"""
