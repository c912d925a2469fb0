"""Running ADK servers of any language, named on the command line, as runtimes of this web process.

A remote server keeps its own sessions; the store has a copy of them. Runs are rows like any other: they wait for
their turn, stream, are cancelled by closing the stream, and end. What differs between the languages of ADK stands in
`dialects`, and nowhere else.
"""

from devui.remote.address import RemoteAddress
from devui.remote.provider import Runtimes

__all__ = ["RemoteAddress", "Runtimes"]
