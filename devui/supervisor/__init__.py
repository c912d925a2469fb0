"""The supervisor: it finds, starts, replaces and ends the runtime processes of a web process."""

from devui.supervisor.limits import Limits
from devui.supervisor.supervisor import Supervisor

__all__ = ["Limits", "Supervisor"]
