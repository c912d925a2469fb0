"""Imports (`readers/` of foreign stores, `writers/` into this one) and exports."""
