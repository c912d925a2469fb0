"""Execution of search queries: sessions, the hit shown for each, and events within one session.

A list shows one page of sessions, newest first. If an index knows few sessions for a term, their keys select them.
Other terms are tested on each session from the newest on, window by window, each scan for a short time.
Events behind a session's index cursor are scanned directly (see `scans`).
"""
