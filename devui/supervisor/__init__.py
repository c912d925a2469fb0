"""The supervisor finds, starts, replaces and ends the runtime processes of a web process."""

from devui.supervisor.limits import SupervisorLimits
from devui.supervisor.supervisor import Supervisor

__all__ = ["Supervisor", "SupervisorLimits"]
