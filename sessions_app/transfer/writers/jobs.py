"""Background imports in threads of this process, which pages start and monitor."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from django.db import connections

from sessions_app.errors import DevUIError
from sessions_app.plugins import FAILURES
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.locations import import_location

log = logging.getLogger(__name__)

_jobs: dict[str, ImportJob] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class ImportJob:
    """Background import with its progress and result."""

    location: str
    agent: str = ""
    done: int = 0
    report: ImportReport | None = None
    problem: str = ""

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
            self.report = import_location(self.location, agent=self.agent, progress=self.progress)
        except DevUIError as error:
            self.problem = f"{error.message} {error.hint}"
        except FAILURES as error:
            log.exception("The import of %s failed", self.location)
            self.problem = f"The import failed: {type(error).__name__}: {error}. It can be started again."
        finally:
            connections.close_all()


def start_import(location: str, agent: str) -> ImportJob:
    """Start the import of an agent's folder in a thread, or return the running one."""
    with _lock:
        job = _jobs.get(location)
        if job is None or not job.is_running:
            job = _jobs[location] = ImportJob(location, agent)
            threading.Thread(target=job.run, name="devui-import", daemon=True).start()
        return job


def find_import(location: str) -> ImportJob | None:
    """Return the latest import of a source by this process, if any."""
    return _jobs.get(location)


def forget_import(location: str) -> None:
    """Drop a finished import."""
    with _lock:
        job = _jobs.get(location)
        if job and not job.is_running:
            del _jobs[location]
