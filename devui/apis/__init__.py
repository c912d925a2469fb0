"""The two APIs, built at their first request."""
