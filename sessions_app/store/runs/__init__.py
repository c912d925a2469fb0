"""Runs of a session as its writers see them."""
