"""Trends: roll-ups of recorded invocations by time, and what pages show of them."""
