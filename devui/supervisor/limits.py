"""How long the supervisor waits, and how many processes it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from devui.config import environment


@dataclass(frozen=True, slots=True)
class SupervisorLimits:
    """Times in seconds.

    Attributes:
        start: an agent may take so long to load.
        idle: a process without runs and requests is ended after so long.
        drain: a process whose code has changed may finish its runs for so long.
        cancel: an agent may take so long to react to a cancel; then its process is ended.
        stop: processes may take so long to end when the server ends.
        sweep: between two looks for idle processes and for runs that nobody will end.
        kept: how many idle processes are kept; of more than these the least used ones are ended at the next look.
    """

    start: float = 120.0
    idle: float = 600.0
    drain: float = 300.0
    cancel: float = 2.0
    stop: float = 5.0
    sweep: float = 15.0
    max_idle: int = 8

    @classmethod
    def from_environment(cls) -> SupervisorLimits:
        """Return the limits that `DEVUI_RUNTIME_START_S`, `…_IDLE_S`, `…_DRAIN_S` and `…_KEPT` name.

        Raises:
            ImproperlyConfigured: one of them is no positive whole number.
        """
        usual = cls()
        return cls(
            start=environment.read_number("DEVUI_RUNTIME_START_S", int(usual.start)),
            idle=environment.read_number("DEVUI_RUNTIME_IDLE_S", int(usual.idle)),
            drain=environment.read_number("DEVUI_RUNTIME_DRAIN_S", int(usual.drain)),
            max_idle=environment.read_number("DEVUI_RUNTIME_KEPT", usual.max_idle),
        )
