from .helper import KEY  # noqa: F401 - importing it raises
