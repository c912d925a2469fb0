"""Branches of a session: taking it back (`rewind`), going on elsewhere (`fork`), laying two side by side (`compare`).

Rewinds and forks append or create rows by `sessions_app.sessions.writes`; nothing is rewritten. `compare` only reads.
"""
