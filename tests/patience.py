"""Longest wait of a test for something that must happen. A test that passes waits no longer than this takes."""

PATIENCE_S = 180
"""Seconds. A virtual machine can stand still for a minute, or be as slow as a quarter of another."""
