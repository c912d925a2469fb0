"""Replay of recordings in runs: policy, recorded runs, comparison. `engine.replay` executes it."""
