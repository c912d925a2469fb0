"""Entries for the configuration files of MCP clients. Pure, apart from `save_entry`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions_app.store.errors import BadInput

NAME = "devui"
"""Name of the server in the files of clients."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class McpClient:
    """A program that uses MCP servers.

    Attributes:
        label: its name.
        file: its file in the folder of a project.
        servers_field: the field of that file with the servers.
        variable: how the file refers to an environment variable.
    """

    label: str
    file: str
    servers_field: str
    variable: str


CLIENTS = {
    "claude-code": McpClient("Claude Code", ".mcp.json", "mcpServers", "${%s}"),
    "cursor": McpClient("Cursor", ".cursor/mcp.json", "mcpServers", "${env:%s}"),
    "vscode": McpClient("VS Code", ".vscode/mcp.json", "servers", "${env:%s}"),
}


def stdio_entry(command: str, arguments: list[str], variables: Mapping[str, str]) -> Entry:
    """Return the entry of a server that the client starts."""
    return {"type": "stdio", "command": command, "args": arguments, "env": dict(variables)}


def http_entry(client: McpClient, url: str, token_variable: str) -> Entry:
    """Return the entry of a running server. `token_variable`: environment variable with a token; empty: none."""
    token = client.variable % token_variable
    headers = {"headers": {"Authorization": f"Bearer {token}"}} if token_variable else {}
    return {"type": "http", "url": url, **headers}


def file_text(client: McpClient, entry: Entry, present: str = "") -> str:
    """Return the text of a client's file with an entry. Other entries of the present text stay.

    Raises:
        BadInput: the present text is no JSON object.
    """
    try:
        content = json.loads(present or "{}")
    except (ValueError, RecursionError):
        content = None
    servers = content.setdefault(client.servers_field, {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise BadInput(
            f"{client.file} is not a JSON object with the servers in {client.servers_field!r} (comments are not read).",
            hint="Leave --save out, and add the printed entry by hand.",
        )
    servers[NAME] = entry
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def save_entry(client: McpClient, entry: Entry, folder: Path) -> Path:
    """Write an entry to a client's file in the folder of a project and return the file.

    Raises:
        BadInput: the file has another form, or cannot be written.
    """
    file = folder / client.file
    try:
        present = file.read_text(encoding="utf-8") if file.exists() else ""
        text = file_text(client, entry, present)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be written: {error}.", hint="Leave --save out.") from error
    return file
