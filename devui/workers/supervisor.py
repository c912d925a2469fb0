"""The supervisor of a worker: its runs come from jobs, and what is left behind becomes jobs again."""

from __future__ import annotations

from typing_extensions import override

from devui.supervisor import Supervisor
from devui.supervisor.runtime_process import RuntimeChild
from devui.workers import redelivery
from sessions_app.store.database import units_of_work


class WorkerSupervisor(Supervisor):
    """The runtime processes of a worker."""

    def code_versions(self) -> set[tuple[str, str]]:
        """Return (app, code version) of the living processes, including those that newer code replaces."""
        return {(child.app_name, child.code_version) for child in self._children.values() if child.is_alive}

    async def child_with_code(self, app_name: str, code_version: str) -> RuntimeChild | None:
        """Return a process that has loaded this code, started if necessary; None if the app has other code now.

        Raises:
            DevUIError: no process can be started.
        """
        for child in self._children.values():
            if (child.app_name, child.code_version) == (app_name, code_version) and child.is_alive:
                return child
        child = await self.child(app_name)
        await child.settled.wait()
        return child if child.code_version == code_version else None

    @override
    async def take_over(self, app_names: list[str] | None = None) -> None:
        """End the runs without a living owner, and queue what can go on, whatever its app."""
        await units_of_work.write(redelivery.take_over)
