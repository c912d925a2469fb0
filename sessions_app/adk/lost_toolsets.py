"""Toolsets that failed to load, which ADK only logs: the agent then runs without their tools.

`LlmAgent` catches what a toolset raises while its tools are listed (`google/adk/agents/llm_agent.py`,
`_convert_tool_union_to_tools`) and logs it at error level, in the context of the invocation. No callback is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

LOGGER = "google_adk.google.adk.agents.llm_agent"

MESSAGE = "Agent %s will run without the tools from toolset"
"""How the format of ADK's log record begins. Its arguments: agent, class of the toolset, prefix, error."""

ERROR_MOST = 300
"""Characters of the error that are kept."""

Report = Callable[[str], None]
"""Is given a line that names the toolset, its agent and the error; must not block."""


class LostToolsetFilter(logging.Filter):
    """Reports each toolset that ADK logs as failed; lets every record pass."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def filter(self, record: logging.LogRecord) -> bool:
        """Report the toolset, if the record is of one."""
        if str(record.msg).startswith(MESSAGE) and isinstance(record.args, tuple) and len(record.args) == 4:
            agent, toolset, prefix, error = record.args
            text = str(error) or type(error).__name__
            self._report(f"{toolset}{prefix} of agent {agent}: {text[:ERROR_MOST]}")
        return True


def report_lost_toolsets(report: Report) -> None:
    """Call `report` for every toolset that fails to load in this process from now on."""
    logging.getLogger(LOGGER).addFilter(LostToolsetFilter(report))
