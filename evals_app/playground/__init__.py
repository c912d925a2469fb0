"""Recorded model calls that are changed and sent again, and their answers."""
