"""Detection of toolsets that fail to load. ADK only logs the failure and runs the agent without their tools.

`LlmAgent` catches a toolset's exception while listing its tools (`google/adk/agents/llm_agent.py`,
`_convert_tool_union_to_tools`) and logs it at error level, in the context of the invocation. It calls no callback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from traceback import walk_tb

from google.adk.tools.base_toolset import BaseToolset

from sessions_app.store.redaction import without_password
from sessions_app.store.short_texts import truncate

LOGGER = "google_adk.google.adk.agents.llm_agent"

MESSAGE = "Agent %s will run without the tools from toolset"
"""Start of the format of ADK's log record. Its arguments: agent, toolset class, prefix, error."""

ERROR_MOST = 300
"""Maximum length of the reported error, in characters."""

Report = Callable[[str], None]
"""Called with a line that names the toolset, its agent and the error; must not block."""


def report_lost_toolsets(report: Report) -> None:
    """Call `report` for every toolset that fails to load in this process."""

    def report_record(record: logging.LogRecord) -> bool:
        if str(record.msg).startswith(MESSAGE) and isinstance(record.args, tuple) and len(record.args) == 4:
            agent, toolset, prefix, error = record.args
            text = str(error) or type(error).__name__
            server = _failed_server(record)
            server_note = f" ({server})" if server else ""
            report(f"{toolset}{prefix}{server_note} of agent {agent}: {truncate(text, ERROR_MOST)}")
        return True

    logging.getLogger(LOGGER).addFilter(report_record)


def find_mcp_server(toolset: BaseToolset) -> str:
    """Return the URL or the program of a toolset's MCP server, without arguments: they may be credentials."""
    try:
        connection = getattr(toolset, "connection_params", None)
        if url := getattr(connection, "url", ""):
            return without_password(str(url))
        return str(getattr(getattr(connection, "server_params", connection), "command", ""))
    except Exception:
        return ""  # the properties of a toolset are the agent's code


def _failed_server(record: logging.LogRecord) -> str:
    """Return the MCP server of the toolset that raised a record's exception. ADK's message has only its class."""
    frames = walk_tb(record.exc_info[2]) if record.exc_info else ()
    owners = (frame.f_locals.get("self") for frame, _ in frames)
    return next((find_mcp_server(owner) for owner in owners if isinstance(owner, BaseToolset)), "")
