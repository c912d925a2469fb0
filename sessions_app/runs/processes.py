"""The rows of runtime processes, and how to tell whether such a process still lives.

On the same host a process lives when its pid does and is the one that the row says (pids are used again): what tells
them apart (`identity`) does not change when the clock is set. On another host only its heartbeat tells: a process is
gone when no new one was seen for a while, by a clock that nobody sets; the times of two hosts are never compared.
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
from sessions_app.store.stopwatch import ChangeTimer

HEARTBEAT_S = 5.0
"""Seconds between two signs of life."""

SILENCE_S = 30.0
"""Seconds of silence after which a process on another host counts as gone."""

POLL_S = 0.5
"""Seconds between two looks for a heartbeat."""

SAME_START_S = 2.0
"""Seconds between two readings of one start, for rows that know of a process only when it started."""

RETENTION_S = 24 * 3600.0
"""Seconds that the row of a process is kept after its end. No page shows it: only active runs need their process."""

BATCH = 200
"""Rows forgotten in one transaction."""

PLATFORM: str = sys.platform


SERVER_APP = ""
"""Name of the app of a server, which starts processes and runs no agent itself."""

_heartbeats = ChangeTimer()
"""The heartbeats of processes on other hosts, by the id of the process."""

_own_id: str | None = None


def own_id() -> str | None:
    """Return the id of this process's row, when it gives runs to others; None: it does not.

    What waits to be given out belongs to it, so that others know at once that nobody will when it is gone.
    """
    return _own_id


def set_own_id(runtime_id: str | None) -> None:
    """Note that this process gives runs to others, under a row of its own; None: no more."""
    global _own_id
    _own_id = runtime_id


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
            pid_started_at=start_time(pid) or 0.0,
            pid_identity=identity(pid) or "",
            code_version=code_version,
            server_id=server_id,
            started_at=now,
            heartbeat_at=now,
        )


def record_heartbeat(runtime_id: str) -> None:
    """Give a sign of life."""
    RuntimeProcess.objects.filter(pk=runtime_id).update(heartbeat_at=time.time())


def mark_alive(runtime_id: str) -> None:
    """Note a heartbeat of a process that was silent and may be noted as stopped."""
    RuntimeProcess.objects.filter(pk=runtime_id).update(heartbeat_at=time.time(), stopped_at=None)


def mark_stopped(runtime_id: str) -> None:
    """Note that a process has ended."""
    RuntimeProcess.objects.filter(pk=runtime_id, stopped_at__isnull=True).update(stopped_at=time.time())


def delete_stopped() -> int:
    """Delete some rows of processes that ended long ago and have no active run. Return how many; 0: none is left.

    What they ran is kept and names no process any more.
    """
    old = RuntimeProcess.objects.filter(stopped_at__lt=time.time() - RETENTION_S)
    active = Run.objects.filter(runtime=OuterRef("pk"), status__in=Run.ACTIVE)
    gone = list(old.filter(~Exists(active)).order_by("stopped_at").values_list("pk", flat=True)[:BATCH])
    with transaction.atomic():
        RuntimeProcess.objects.filter(pk__in=gone).delete()
    return len(gone)


def mark_gone_stopped() -> None:
    """Note as stopped which processes are gone and could not say so."""
    running = list(RuntimeProcess.objects.filter(stopped_at__isnull=True))
    _heartbeats.keep_only([process.pk for process in running])
    for process in running:
        if not is_alive(process):
            mark_stopped(process.pk)


def confirm_alive(process: RuntimeProcess) -> bool:
    """Tell whether a process lives. For one on another host, wait for a heartbeat, at most `SILENCE_S`."""
    while (alive := is_alive(process)) and _needs_heartbeat(process):
        heard_at = process.heartbeat_at
        time.sleep(POLL_S)
        process.refresh_from_db(fields=["heartbeat_at", "stopped_at"])
        if process.heartbeat_at != heard_at or process.stopped_at is not None:
            return process.stopped_at is None
    return alive


def is_alive(process: RuntimeProcess) -> bool:
    """Tell whether a process that has not been noted as stopped still lives."""
    if _needs_heartbeat(process):
        return _heartbeats.seconds_unchanged(process.pk, process.heartbeat_at) < SILENCE_S
    if process.pid_identity:
        return identity(process.pid) == process.pid_identity
    started = start_time(process.pid)  # a row that was written before there were identities
    if started is None:
        return False
    return not process.pid_started_at or abs(started - process.pid_started_at) < SAME_START_S


def describe_exit(code: int) -> str:
    """Say how a process ended that has this exit status; below 0 it is a signal's number."""
    if code >= 0:
        return f"exit status {code}"
    names = {one.value: f", {one.name}" for one in signal.Signals}
    return f"signal {-code}{names.get(-code, '')}"


def _needs_heartbeat(process: RuntimeProcess) -> bool:
    return process.host != socket.gethostname() or PLATFORM == "win32"


def identity(pid: int) -> str | None:
    """Return what tells a process of this host from all others that had its pid, or None when there is none.

    On Linux the boot and the clock ticks from there to its start. On macOS the kernel keeps the time of the start as
    the clock said it then, and does not correct it: `ps` shows it, in UTC, so that a change of zone changes nothing.
    """
    if PLATFORM.startswith("linux"):
        ticks = _start_ticks(pid)
        return None if ticks is None else f"{_boot_id()} {ticks}"
    if PLATFORM == "win32":
        return None
    return _start_by_ps(pid, {"TZ": "UTC"}) or None


def start_time(pid: int) -> float | None:
    """Return when a process of this host was started (epoch seconds), or None when there is none.

    It moves when the clock is set: it tells people, `identity` tells processes apart.
    """
    if PLATFORM.startswith("linux"):
        return _start_time_on_linux(pid)
    if PLATFORM == "win32":
        return None
    return _start_time_by_ps(pid)


def _start_time_on_linux(pid: int) -> float | None:
    ticks = _start_ticks(pid)
    try:
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    return None if ticks is None else float(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def _start_ticks(pid: int) -> int | None:
    """Return the clock ticks between boot and the start of a process that lives."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(fields[18])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # a container may hide it; the ticks stay
        return ""


def _start_time_by_ps(pid: int) -> float | None:
    shown = _start_by_ps(pid, {})
    return time.mktime(time.strptime(shown)) if shown else None


def _start_by_ps(pid: int, zone: dict[str, str]) -> str:
    ps = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    environment = {"LC_ALL": "C", **zone}
    return subprocess.run(ps, capture_output=True, text=True, check=False, env=environment).stdout.strip()
