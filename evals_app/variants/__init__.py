"""Variants: files that change agents without changing their code."""
