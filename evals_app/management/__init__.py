"""`run_evals`."""
