"""The rows of runtime processes, and how to tell whether such a process still lives.

On the same host a process lives when its pid does and started when the row says (pids are used again). On
another host only its heartbeat tells.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from django.db import transaction
from django.db.models import Exists, OuterRef

from sessions_app.models import Run, RuntimeProcess

HEARTBEAT_S = 5.0
"""Seconds between two signs of life."""

SILENCE_S = 30.0
"""Seconds of silence after which a process on another host counts as gone."""

SAME_START_S = 2.0

KEPT_S = 24 * 3600.0
"""Seconds that the row of a process is kept after its end. No page shows it: only active runs need their process."""

BATCH = 200
"""Rows forgotten in one transaction."""

PLATFORM: str = sys.platform


SERVER = ""
"""Name of the app of a server, which starts processes and runs no agent itself."""


def register(
    runtime_id: str, app_name: str, pid: int, code_version: str, server_id: str | None = None
) -> RuntimeProcess:
    """Note a process of this host that has just been started, by the server `server_id`."""
    now = time.time()
    with transaction.atomic():
        return RuntimeProcess.objects.create(
            id=runtime_id,
            app_name=app_name,
            host=socket.gethostname(),
            pid=pid,
            pid_started_at=started_at(pid) or 0.0,
            code_version=code_version,
            server_id=server_id,
            started_at=now,
            heartbeat_at=now,
        )


def beat(runtime_id: str) -> None:
    """Give a sign of life."""
    RuntimeProcess.objects.filter(pk=runtime_id).update(heartbeat_at=time.time())


def stop(runtime_id: str) -> None:
    """Note that a process has ended."""
    RuntimeProcess.objects.filter(pk=runtime_id, stopped_at__isnull=True).update(stopped_at=time.time())


def forget_stopped() -> int:
    """Delete some rows of processes that ended long ago and have no active run. Return how many; 0: none is left.

    What they ran is kept and names no process any more.
    """
    old = RuntimeProcess.objects.filter(stopped_at__lt=time.time() - KEPT_S)
    active = Run.objects.filter(runtime=OuterRef("pk"), status__in=Run.ACTIVE)
    gone = list(old.filter(~Exists(active)).order_by("stopped_at").values_list("pk", flat=True)[:BATCH])
    with transaction.atomic():
        RuntimeProcess.objects.filter(pk__in=gone).delete()
    return len(gone)


def is_alive(process: RuntimeProcess) -> bool:
    """Tell whether a process that has not been noted as stopped still lives."""
    if process.host != socket.gethostname() or PLATFORM == "win32":
        return time.time() - process.heartbeat_at < SILENCE_S
    started = started_at(process.pid)
    if started is None:
        return False
    return not process.pid_started_at or abs(started - process.pid_started_at) < SAME_START_S


def ending(code: int) -> str:
    """Say how a process ended that has this exit status; below 0 it is a signal's number."""
    if code >= 0:
        return f"exit status {code}"
    names = {one.value: f", {one.name}" for one in signal.Signals}
    return f"signal {-code}{names.get(-code, '')}"


def started_at(pid: int) -> float | None:
    """Return when a process of this host was started (epoch seconds), or None when there is none."""
    if PLATFORM.startswith("linux"):
        return _started_at_on_linux(pid)
    if PLATFORM == "win32":
        return None
    return _started_at_by_ps(pid)


def _started_at_on_linux(pid: int) -> float | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    if state in {"Z", "X"}:
        return None
    return float(boot.split()[1]) + int(fields[18]) / os.sysconf("SC_CLK_TCK")


def _started_at_by_ps(pid: int) -> float | None:
    ps = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    shown = subprocess.run(
        ps, capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
    ).stdout.strip()
    return time.mktime(time.strptime(shown)) if shown else None
