"""Evalsets run against agents: files, runs, attempts, scores, and the pages that show them."""
