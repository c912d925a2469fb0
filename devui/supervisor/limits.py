"""Time limits of the supervisor, and the number of idle processes that it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from devui.config import environment


@dataclass(frozen=True, slots=True)
class SupervisorLimits:
    """Limits; times are in seconds.

    Attributes:
        start: time for an agent to load.
        idle: time after which a process without runs and requests is ended.
        drain: time for a process with outdated code to finish its runs.
        cancel: time for an agent to react to a cancellation; then its process is ended.
        silence: time after which a process that does not answer and has no active run is ended.
        stop: time for processes to end when the server stops.
        sweep: interval between checks for idle processes and for runs without an owner.
        max_idle: number of idle processes to keep; beyond it, the least recently used ones are ended at the next check.
    """

    start: float = 120.0
    idle: float = 600.0
    drain: float = 300.0
    cancel: float = 2.0
    silence: float = 60.0
    stop: float = 5.0
    sweep: float = 15.0
    max_idle: int = 8

    @classmethod
    def from_environment(cls) -> SupervisorLimits:
        """Return the limits of `DEVUI_RUNTIME_START_S`, `…_IDLE_S`, `…_DRAIN_S` and `…_KEPT`.

        Raises:
            ImproperlyConfigured: a value is not a positive whole number.
        """
        usual = cls()
        return cls(
            start=environment.read_number("DEVUI_RUNTIME_START_S", int(usual.start)),
            idle=environment.read_number("DEVUI_RUNTIME_IDLE_S", int(usual.idle)),
            drain=environment.read_number("DEVUI_RUNTIME_DRAIN_S", int(usual.drain)),
            max_idle=environment.read_number("DEVUI_RUNTIME_KEPT", usual.max_idle),
        )
