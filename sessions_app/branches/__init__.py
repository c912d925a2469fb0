"""Branches of a session: `rewind`, `fork`, editing a message, and the comparison of two sessions.

Rewinds and forks append or create rows with `sessions_app.store.sessions.writes`; nothing is rewritten.
"""
