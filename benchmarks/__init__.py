"""Measured figures beside DevUI's budgets and the peer measured in the same run: `python -m benchmarks`."""
