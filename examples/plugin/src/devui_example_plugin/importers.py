"""An importer: chats in JSON Lines. Each line has `chat`, `user`, `author`, `text` and `time` in seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sessions_app.transfer.readers.importer import Importer


class ChatImporter(Importer):
    """Importer of a file of chats. Each chat becomes a session of the app `chats`."""

    def matches_file(self, path: Path, head: bytes) -> bool:
        """Tell whether the file starts with a line of a chat."""
        return head.startswith(b'{"chat":')

    def read_sessions(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the sessions as ADK's REST API returns them."""
        sessions: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            message = json.loads(line)
            chat, user = message["chat"], message["user"]
            session = sessions.setdefault(
                chat, {"appName": "chats", "userId": user, "id": chat, "state": {}, "events": []}
            )
            session["events"].append(
                {
                    "id": f"line-{number}",
                    "author": message["author"],
                    "content": {"role": message["author"], "parts": [{"text": message["text"]}]},
                    "timestamp": message["time"],
                }
            )
        yield from sessions.values()


CHATS = ChatImporter(name="chats in JSON Lines")
