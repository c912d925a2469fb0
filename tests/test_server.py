"""The listening socket of the web process."""

from __future__ import annotations

import socket

import pytest

from devui import server
from sessions_app.errors import BadInput


def test_answers_are_sent_without_delay():
    """asyncio sets TCP_NODELAY only on sockets whose protocol says TCP, and accepted ones inherit it."""
    with server.listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_number_that_is_no_port_is_refused(port):
    """The system itself takes 99999 for port 34463."""
    with pytest.raises(BadInput, match=f"{port} is no port"):
        server.listen("127.0.0.1", port)
