"""Artifact versions and their content."""
