"""Artifacts: versioned files of a session or a user. Rows, and for large content files beside the store."""
