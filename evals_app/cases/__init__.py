"""Eval cases: forms, edits, cases made of sessions, uploads, versions."""
