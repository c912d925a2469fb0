"""An example of a package that extends DevUI by entry points. Each module is one extension."""
