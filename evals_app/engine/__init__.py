"""Carries attempts out and scores them."""
