"""Benchmarks of DevUI's budgets, beside peers measured in the same run: `python -m benchmarks`."""
