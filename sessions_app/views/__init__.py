"""Pages of the sessions room, a module or a package for each."""
