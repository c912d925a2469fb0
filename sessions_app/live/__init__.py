"""Live updates of pages by sockets, and the search indexer in the background."""
