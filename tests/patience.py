"""How long tests wait for what must come: one that passes waits no longer than it takes, however slow the machine."""

PATIENCE_S = 180
"""Seconds. A virtual machine can stand still for a minute, or be as slow as a quarter of another."""
