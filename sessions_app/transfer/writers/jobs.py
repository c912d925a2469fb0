"""Background imports, which pages start and monitor: in threads of this process, or at workers.

`devui.workers` registers jobs of its own in web processes that have no runtimes.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Protocol

from django.db import connections

from sessions_app.plugins import FAILURES
from sessions_app.store.errors import DevUIError
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.locations import import_location

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ImportJob:
    """Background import with its progress and result. `dry_run` only reports what would be imported."""

    location: str
    agent: str = ""
    done: int = 0
    report: ImportReport | None = None
    problem: str = ""
    dry_run: bool = False

    @property
    def is_running(self) -> bool:
        """True while the import is running."""
        return self.report is None and not self.problem

    def progress(self, done: int) -> None:
        """Record the number of events read so far."""
        self.done = done

    def run(self) -> None:
        """Run the import and store its report, or the problem."""
        try:
            self.report = import_location(
                self.location, agent=self.agent, dry_run=self.dry_run, progress=self.progress
            )
        except DevUIError as error:
            self.problem = f"{error.message} {error.hint}"
        except FAILURES as error:
            log.exception("The import of %s failed", self.location)
            self.problem = f"The import failed: {type(error).__name__}: {error}. It can be started again."
        finally:
            connections.close_all()


class ImportJobs(Protocol):
    """The imports of agents' folders, by location."""

    def start(self, location: str, agent: str) -> None:
        """Start the import of an agent's folder, unless it is running."""

    def find(self, location: str) -> ImportJob | None:
        """Return the latest import of a folder, if any."""

    def forget(self, location: str) -> None:
        """Drop a finished import."""


class ThreadJobs:
    """Imports in threads of this process (`ImportJobs`)."""

    def __init__(self) -> None:
        self._jobs: dict[str, ImportJob] = {}
        self._lock = threading.Lock()

    def start(self, location: str, agent: str) -> None:
        """Start the import of an agent's folder, unless it is running."""
        with self._lock:
            job = self._jobs.get(location)
            if job is None or not job.is_running:
                job = self._jobs[location] = ImportJob(location, agent)
                threading.Thread(target=job.run, name="devui-import", daemon=True).start()

    def find(self, location: str) -> ImportJob | None:
        """Return the latest import of a folder by this process, if any."""
        return self._jobs.get(location)

    def forget(self, location: str) -> None:
        """Drop a finished import."""
        with self._lock:
            job = self._jobs.get(location)
            if job and not job.is_running:
                del self._jobs[location]


_own_jobs = ThreadJobs()
_jobs: ImportJobs = _own_jobs


def register(jobs: ImportJobs | None) -> None:
    """Set the imports of this process; None: in threads of its own."""
    global _jobs
    _jobs = jobs or _own_jobs


def current_jobs() -> ImportJobs:
    """Return the imports of this process."""
    return _jobs
