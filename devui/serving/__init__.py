"""Start and end of the web process, demo data, the flags of `adk web`."""
