"""Runs from the order to their end: launch, dispatch, attempts, limits, replay, rerun."""
