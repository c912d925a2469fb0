"""The rows of the search indexes, and how far they reach."""
