"""The supervisor of a worker: its runs come from jobs, and what is left behind becomes jobs again."""

from __future__ import annotations

from typing_extensions import override

from devui.supervisor import Supervisor
from devui.workers import redelivery
from sessions_app.store import units_of_work


class WorkerSupervisor(Supervisor):
    """The runtime processes of a worker."""

    @override
    async def take_over(self, app_names: list[str] | None = None) -> None:
        """End the runs without a living owner, and queue what can go on, whatever its app."""
        await units_of_work.write(redelivery.take_over)
