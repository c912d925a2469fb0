"""Memory: what agents recall of a user in later sessions, found by full-text search."""
