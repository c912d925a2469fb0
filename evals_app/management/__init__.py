"""Management commands of evals."""
