"""Limits of memory, processor time, open files and processes for the processes that run agents.

The system enforces them (`setrlimit`). They are set before agents are imported, and neither an agent nor a program that
it starts can raise them, unless it runs as root.
"""

from __future__ import annotations

import logging
import resource
import sys
from collections.abc import Mapping

from django.conf import settings

MB = 1024 * 1024

RESOURCES: Mapping[str, tuple[int, int]] = {
    "DEVUI_AGENT_MEMORY_MB": (resource.RLIMIT_AS, MB),
    "DEVUI_AGENT_CPU_S": (resource.RLIMIT_CPU, 1),
    "DEVUI_AGENT_OPEN_FILES": (resource.RLIMIT_NOFILE, 1),
    "DEVUI_AGENT_PROCESSES": (resource.RLIMIT_NPROC, 1),
}
"""Resource of each setting, and the number of the system's units in one of the setting's."""

log = logging.getLogger(__name__)


def apply_limits() -> None:
    """Apply the limits of the settings to this process and its future children, at most the hard limits it has."""
    for name, (number, unit) in RESOURCES.items():
        value = getattr(settings, name, None)
        if value is not None:
            _set_limit(name, number, value * unit)


def _set_limit(name: str, number: int, amount: int) -> None:
    hard = resource.getrlimit(number)[1]
    ceiling = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    # At the soft limit of processor time a signal of its own ends the process; at the hard one SIGKILL does.
    until_killed = 1 if number == resource.RLIMIT_CPU else 0
    try:
        resource.setrlimit(number, (min(amount, ceiling), min(amount + until_killed, ceiling)))
    except (OSError, ValueError) as error:  # macOS has no limit of memory
        log.warning("This system cannot apply %s to agents: %s.", name, error)
