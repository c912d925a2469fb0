"""Output of runs on a terminal, and the CI gate."""
