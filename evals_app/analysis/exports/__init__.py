"""Exports of runs and comparisons: JSON, CSV, JUnit XML, self-contained HTML pages, Markdown. Read-only."""
