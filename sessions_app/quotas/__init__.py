"""Quotas of persons, and the runs that count for them."""
