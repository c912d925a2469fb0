"""Traces of invocations: model calls, spans and stages."""
