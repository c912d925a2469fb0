"""Runs on a terminal and the gate for CI."""
