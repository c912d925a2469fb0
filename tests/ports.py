"""Ports for servers that tests start as processes of their own."""

from __future__ import annotations

import random
import socket

# Below the range from which Linux (32768) and macOS (49152) give ports to connections, so that
# no connection of another test takes the port between the search and the start of the server.
FIRST_PORT, LAST_PORT = 10_000, 32_000

# Hypothesis and pytest plug-ins seed the shared generator: all test processes would search in one order.
_system_random = random.SystemRandom()


def find_free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens, whose successor is free, too."""
    while True:
        port = _system_random.randint(FIRST_PORT, LAST_PORT)
        try:
            for number in (port, port + 1):
                socket.create_server(("127.0.0.1", number)).close()
        except OSError:
            continue
        return port
