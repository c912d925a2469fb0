"""Detection of toolsets that fail to load. ADK only logs the failure and runs the agent without their tools.

`LlmAgent` catches a toolset's exception while listing its tools (`google/adk/agents/llm_agent.py`,
`_convert_tool_union_to_tools`) and logs it at error level, in the context of the invocation. It calls no callback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

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
            report(f"{toolset}{prefix} of agent {agent}: {text[:ERROR_MOST]}")
        return True

    logging.getLogger(LOGGER).addFilter(report_record)
