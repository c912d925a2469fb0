"""Replay of recordings in runs: policy, recorded runs, comparison. `evals_app.execution.replay` executes it."""
