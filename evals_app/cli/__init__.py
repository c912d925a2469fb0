"""Output of runs on a terminal, their results, and the CI gate."""
