"""Dialect of ADK's server for Java."""

from devui.remote.dialects import Dialect

JAVA = Dialect(names=("java",), label="Java")
