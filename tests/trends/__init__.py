"""Trends: roll-ups, their page and API, and the comparison of code versions."""
