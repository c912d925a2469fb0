"""Metrics with their options and configs, expected state, alignment of tool calls, causes of failed attempts."""
