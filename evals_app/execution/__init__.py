"""Execution and scoring of eval attempts with ADK."""
