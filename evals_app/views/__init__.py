"""Pages of evals."""
