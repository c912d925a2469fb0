"""Query strings of lists and pages, and forms of sessions, keys, forks and settings."""
