"""The web process from start to end, demo data, the flags of `adk web`."""
