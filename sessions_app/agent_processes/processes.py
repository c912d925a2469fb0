"""Rows of runtime processes, and the check whether a process is alive.

A process of the same host is gone if its pid does not exist or has another `identity` than the row: pids are reused,
and the identity does not change when the clock is set. A process of another host is gone if no new heartbeat was seen
for a while, measured by the monotonic clock: times of two hosts are never compared. With DEVUI_ENGINE this holds for
all processes, so that workers continue the work of a paused one. Without, a process in a debugger keeps its runs.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from sessions_app.store.database.stopwatch import ChangeTimer
from sessions_app.store.database.store_kind import is_file_store
from sessions_app.store.models import Run, RuntimeProcess

HEARTBEAT_S = 5.0
"""Seconds between two heartbeats."""

SILENCE_S = 30.0
"""Seconds without a heartbeat after which a process counts as gone."""

POLL_S = 0.5
"""Seconds between two checks for a heartbeat."""

RETENTION_S = 24 * 3600.0
"""Seconds that the row of an ended process is retained. No page shows it; only active runs need it."""

BATCH = 200
"""Rows deleted per transaction."""

PLATFORM: str = sys.platform

SERVER_APP = ""
"""`app_name` of a server's row: a server starts runtimes and runs no agent itself."""

_heartbeats = ChangeTimer(max_gap_s=SILENCE_S / 2)
"""Heartbeats of processes, by process id. While the store is away nobody can write one."""

_own_id: str | None = None


def own_id() -> str | None:
    """Return the id of this process's row if it dispatches runs, else None.

    Queued runs belong to the process that will dispatch them, so that others notice when it is gone.
    """
    return _own_id


def set_own_id(runtime_id: str | None) -> None:
    """Record that this process dispatches runs under this row; None: it does not any more."""
    global _own_id
    _own_id = runtime_id


def register(
    runtime_id: str, app_name: str, pid: int, code_version: str, server_id: str | None = None
) -> RuntimeProcess:
    """Record a process that the server `server_id` has just started on this host."""
    now = time.time()
    with transaction.atomic():
        return RuntimeProcess.objects.create(
            id=runtime_id,
            app_name=app_name,
            host=socket.gethostname(),
            pid=pid,
            pid_identity=identity(pid) or "",
            code_version=code_version,
            server_id=server_id,
            started_at=now,
            heartbeat_at=now,
        )


def record_heartbeat(*runtime_ids: str) -> None:
    """Record a heartbeat of processes.

    On SQLite it is written only if a process of another host has used the store, also if that one counts as gone: it
    may have been paused. Otherwise pids decide, and each commit would wake the subscribers of all processes.
    """
    rows = RuntimeProcess.objects.filter(pk__in=runtime_ids)
    if is_file_store():
        rows = rows.filter(Exists(RuntimeProcess.objects.exclude(host=socket.gethostname())))
    rows.update(heartbeat_at=time.time())


def is_marked_stopped(runtime_id: str) -> bool:
    """Tell whether others have marked a silent process as stopped. Its runs are not its own any more."""
    return RuntimeProcess.objects.filter(pk=runtime_id, stopped_at__isnull=False).exists()


def mark_alive(runtime_id: str) -> None:
    """Record a heartbeat of a process that was silent and may be marked as stopped."""
    RuntimeProcess.objects.filter(pk=runtime_id).update(heartbeat_at=time.time(), stopped_at=None)


def mark_stopped(runtime_id: str) -> None:
    """Record that a process has ended."""
    RuntimeProcess.objects.filter(pk=runtime_id, stopped_at__isnull=True).update(stopped_at=time.time())


def delete_stopped() -> int:
    """Delete a batch of rows of processes that ended long ago and have no active run. Return the number deleted.

    Their runs remain, without a process.
    """
    old = RuntimeProcess.objects.filter(stopped_at__lt=time.time() - RETENTION_S)
    active = Run.objects.filter(runtime=OuterRef("pk"), status__in=Run.ACTIVE)
    pks = list(old.filter(~Exists(active)).order_by("stopped_at").values_list("pk", flat=True)[:BATCH])
    with transaction.atomic():
        RuntimeProcess.objects.filter(pk__in=pks).delete()
    return len(pks)


def mark_gone_stopped() -> None:
    """Mark the processes as stopped that ended without recording it."""
    running = list(RuntimeProcess.objects.filter(stopped_at__isnull=True))
    _heartbeats.keep_only([process.pk for process in running])
    for process in running:
        if not is_alive(process):
            mark_stopped(process.pk)


def confirm_alive(process: RuntimeProcess) -> bool:
    """Return whether a process is alive. If its heartbeat decides, wait up to `SILENCE_S` for one."""
    while (alive := is_alive(process)) and _needs_heartbeat(process):
        heard_at = process.heartbeat_at
        time.sleep(POLL_S)
        process.refresh_from_db(fields=["heartbeat_at", "stopped_at"])
        if process.heartbeat_at != heard_at or process.stopped_at is not None:
            return process.stopped_at is None
    return alive


def is_alive(process: RuntimeProcess) -> bool:
    """Tell whether a process that is not marked as stopped is alive."""
    if process.host == socket.gethostname() and not _has_pid(process):
        return False
    if _needs_heartbeat(process):
        return _heartbeats.seconds_unchanged(process.pk, process.heartbeat_at) < SILENCE_S
    return True


def describe_exit(code: int) -> str:
    """Return the exit code of a process as text; negative codes are signal numbers."""
    if code >= 0:
        return f"exit status {code}"
    if code == -signal.SIGXCPU:
        return f"signal {-code}, SIGXCPU: it used up its processor time, DEVUI_AGENT_CPU_S"
    names = {number.value: f", {number.name}" for number in signal.Signals}
    return f"signal {-code}{names.get(-code, '')}"


def _needs_heartbeat(process: RuntimeProcess) -> bool:
    return process.host != socket.gethostname() or bool(getattr(settings, "DEVUI_ENGINE", ""))


def _has_pid(process: RuntimeProcess) -> bool:
    return bool(process.pid_identity) and identity(process.pid) == process.pid_identity


def identity(pid: int) -> str | None:
    """Return what distinguishes a process of this host from others with the same pid; None if it does not exist.

    On Linux: boot id and clock ticks from boot to start. On macOS: the start time as `ps` shows it, in UTC; the kernel
    stores it once and does not correct it when the clock is set.
    """
    if PLATFORM.startswith("linux"):
        ticks = _start_ticks(pid)
        return None if ticks is None else f"{_boot_id()} {ticks}"
    return _start_by_ps(pid) or None


def _start_ticks(pid: int) -> int | None:
    """Return the clock ticks between boot and the start of a live process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in {"Z", "X"} else int(fields[18])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # hidden in some containers; the ticks remain
        return ""


def _start_by_ps(pid: int) -> str:
    ps = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
    environment = {"LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(ps, capture_output=True, text=True, check=False, env=environment).stdout.strip()
