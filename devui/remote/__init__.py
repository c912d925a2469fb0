"""Running ADK servers of any language, named on the command line, as runtimes of this web process.

A remote server owns its sessions; the store has copies of them. Its runs have rows like any other: they are queued,
streamed, and cancelled by closing the stream. The package `dialects` contains the differences
between ADK's languages.
"""

from devui.remote.address import RemoteAddress
from devui.remote.provider import Runtimes

__all__ = ["RemoteAddress", "Runtimes"]
