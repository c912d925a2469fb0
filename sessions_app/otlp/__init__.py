"""Traces and logs that other programs send by OTLP: read, stored, and shown as sessions."""
