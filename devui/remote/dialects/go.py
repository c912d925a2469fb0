"""Dialect of ADK's server for Go, which refuses unknown fields."""

from devui.remote.dialects import Dialect

GO = Dialect(names=("go", "golang"), label="Go", root_path="/api")
