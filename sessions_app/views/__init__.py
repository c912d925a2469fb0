"""Pages of the sessions room, one module a page."""
