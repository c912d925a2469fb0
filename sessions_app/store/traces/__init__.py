"""Traces, spans, model calls, nested runs and log records as the recorder writes them."""
