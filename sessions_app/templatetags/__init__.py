"""Tags and filters."""
