"""Raw HTTP of hostile clients, such as endless requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.patience import PATIENCE_S

MAX_LINE = 1 << 24


@dataclass
class Answer:
    """An answer as it was read, up to the end of its body."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Connection:
    """An open connection to a server."""

    address: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        """Send the head of a request, and `body`, which may be less than its length says."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{n}: {v}" for n, v in ({"Host": self.address} | header_fields).items()),
        ]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def send(self, data: bytes) -> None:
        """Send bytes. They are lost when the server has ended the connection."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self) -> Answer:
        """Return the next answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in head[1:] if line}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Answer(int(head[0].split()[1]), headers, body)

    async def ended(self) -> bytes:
        """Wait until the server ends the connection and return what it sent before."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Connection]:
    """Yield a connection to a server."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=MAX_LINE)
    try:
        yield Connection(address, reader, writer)
    finally:
        writer.close()
