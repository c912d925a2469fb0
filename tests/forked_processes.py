"""Forked Python processes that have imported ADK and Django, for tests that start many.

Starting Python and importing ADK takes two to three seconds of a core, and the tests start some hundred processes.
`Popen` replaces `subprocess.Popen`: its children have their own pid, session, environment, pipes and exit status. The
modules of other packages are imported already, DevUI's own are not. `runtime/test_web_command.py`, `e2e` and others
test the real start of processes.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from inspect import signature
from typing import Any, NoReturn

MODULES = """
    google.adk.agents google.adk.agents.live_request_queue google.adk.apps.app google.adk.auth.auth_tool
    google.adk.cli.dev_server google.adk.cli.utils._nested_agent_loader google.adk.evaluation.custom_metric_evaluator
    google.adk.auth.credential_service.in_memory_credential_service google.adk.cli.service_registry
    google.adk.cli.utils.agent_loader google.adk.cli.utils.service_factory google.adk.runners google.adk.tools
    google.adk.evaluation.final_response_match_v2 google.adk.evaluation.rubric_based_evaluator
    google.adk.evaluation.local_eval_set_results_manager google.adk.evaluation.local_eval_sets_manager
    google.adk.environment google.adk.flows.llm_flows.contents google.adk.flows.llm_flows.core._model_call
    google.adk.flows.llm_flows.identity google.adk.tools.environment google.adk.tools.skill_toolset
    google.adk.tools.environment_simulation.environment_simulation_config
    google.adk.tools.environment_simulation.environment_simulation_engine
    google.adk.optimization.data_types google.adk.optimization.sampler google.adk.optimization.simple_prompt_optimizer
    google.adk.workflow._workflow
    asgiref.sync asgiref.testing authlib.integrations.httpx_client channels.routing httpx markdown_it nh3 regex uvicorn
    uvicorn.lifespan.on uvicorn.loops.auto uvicorn.protocols.http.auto watchfiles websockets.asyncio.server
    django.contrib.admin django.contrib.auth.hashers django.contrib.staticfiles.finders django.core.asgi
    django.core.handlers.asgi django.core.management django.views.decorators.http
    mcp.server mcp.server.mcpserver.exceptions mcp.server.mcpserver.prompts mcp.server.mcpserver.tools
    mcp.server.transport_security mcp.types whitenoise.middleware whitenoise.responders
    django.db.backends.postgresql.base django.db.backends.sqlite3.base django.db.migrations.executor
    django.db.models django.forms django.middleware.csrf django.shortcuts django.template.defaulttags
    django.urls django.views.debug django_htmx.middleware psycopg_pool
    google.protobuf.json_format google.protobuf.message opentelemetry.proto.collector.logs.v1.logs_service_pb2
    opentelemetry.proto.collector.metrics.v1.metrics_service_pb2
    opentelemetry.proto.collector.trace.v1.trace_service_pb2
"""
"""Modules of others that DevUI's processes import and that ask for no settings.

`test_forked_processes.py` names the missing ones.
"""

ASK_FOR_SETTINGS = (
    "channels",
    "ninja",
    "procrastinate",
    "django.contrib.auth.forms",
    "django.contrib.auth.models",
    "django.contrib.auth.password_validation",
)
"""Packages that read Django's settings as they are imported, so each process has to import them by itself."""

SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of prctl(2): who sets it adopts what its children leave behind."""

IS_POSSIBLE = sys.platform == "linux"
"""Elsewhere a process cannot adopt what its child has forked, so all are started as usual."""

PATIENCE_S = 180
"""As in `patience.py`, which this file cannot import when it runs as the process that others are forked from."""

REQUEST_BYTES = 1 << 17
MAX_FDS = 16
FREE_FD = 500
"""Descriptors from here on are used by nobody."""


class Popen(subprocess.Popen):
    """A process like those of `subprocess.Popen`; Python is forked from a process that is warm."""

    def _execute_child(self, *value: Any) -> None:
        start = super()._execute_child
        arguments = signature(start).bind(*value).arguments
        command = arguments["args"]
        if not IS_POSSIBLE or isinstance(command, str) or command[0] != sys.executable:
            start(*value)
            return
        standard = enumerate((arguments["p2cread"], arguments["c2pwrite"], arguments["errwrite"]))
        fds = {number: number if fd == -1 else fd for number, fd in standard}
        fds |= {number: number for number in arguments["pass_fds"]}
        request = {
            "arguments": [str(part) for part in command[1:]],
            "folder": str(arguments["cwd"] or os.getcwd()),
            "environment": dict(os.environ if arguments["env"] is None else arguments["env"]),
            "session": arguments["start_new_session"],
            "fds": list(fds),
        }
        self.pid = _warm.fork(request, list(fds.values()))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(arguments[name] for name in pipes))


@contextmanager
def starts() -> Iterator[None]:
    """Let all that is started meanwhile be forked, by asyncio too."""
    usual, subprocess.Popen = subprocess.Popen, Popen
    try:
        yield
    finally:
        subprocess.Popen = usual


def run(command: list[str], patience_s: float = PATIENCE_S, **how: Any) -> subprocess.CompletedProcess[str]:
    """Do what `subprocess.run` does and return what was printed, as text."""
    with Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how) as process:
        try:
            out, err = process.communicate(timeout=patience_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class _Warm:
    """The process that has imported everything: one for each worker, started when first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """Return the pid of a new child of this process."""
        with self._lock:
            connection = self._connection = self._connection or self._start()
            prctl = ctypes.CDLL(None).prctl
            prctl(SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(connection, [json.dumps(request).encode()], fds)
                answer = connection.recv(REQUEST_BYTES)
            finally:
                prctl(SUBREAPER, 0, 0, 0, 0)
        if not answer:
            raise RuntimeError("The process that others are forked from has ended.")
        return int(answer)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_BYTES)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-P", "-u", __file__, str(theirs.fileno())]
        with theirs:
            self._process = _USUAL(command, pass_fds=[theirs.fileno()], env=environment)
        return ours


_USUAL = subprocess.Popen
_warm = _Warm()


def main(connection: socket.socket) -> None:
    """Fork what is asked for until nobody is left to ask. A copy goes on as the process it was asked to be."""
    sys.modules["scipy.stats"] = None  # takes a second, and users do not have it
    with warnings.catch_warnings(action="ignore"):
        for name in MODULES.split():
            importlib.import_module(name)
    if threading.active_count() > 1:
        raise RuntimeError("A module has started a thread, which no copy would have.")
    gc.freeze()
    while True:
        message, fds, _, _ = socket.recv_fds(connection, REQUEST_BYTES, MAX_FDS)
        if not message:
            return
        if (pid := _fork_twice()) == 0:
            connection.close()
            _exit_after(partial(_become, json.loads(message), fds))
        for fd in fds:
            os.close(fd)
        connection.send(str(pid).encode())


def _exit_after(body: Callable[[], None]) -> NoReturn:
    """Run `body` and exit as Python does, except for clearing all modules: that would copy the memory of the parent."""
    status: Any = 0
    try:
        body()
    except SystemExit as exit:
        status = exit.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    if not isinstance(status, int | None):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    if sys.modules["django.conf"].settings.configured:
        sys.modules["django.db"].connections.close_all()  # SQLite then writes its log to the file
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status or 0)


def _fork_twice() -> int:
    """Fork a grandchild, which whoever asked adopts when the child ends. Return its pid, in itself 0.

    It begins when it is adopted: nothing is written to `orphaned`, which is closed here once the child has ended.
    """
    reading, writing = os.pipe()
    waiting, orphaned = os.pipe()
    if (child := os.fork()) == 0:
        if grandchild := os.fork():
            os.write(writing, str(grandchild).encode())
            os._exit(0)
        os.close(orphaned)
        os.read(waiting, 1)
        return 0
    os.waitpid(child, 0)
    pid = int(os.read(reading, 64))
    for fd in (reading, writing, waiting, orphaned):
        os.close(fd)
    return pid


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Be the process that was asked for."""
    if request["session"]:
        os.setsid()
    _place(fds, request["fds"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    what, *sys.argv = request["arguments"]
    own_path = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if what == "-m":
        sys.path[:0] = [request["folder"], *own_path]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        code, sys.argv[0] = sys.argv[0], "-c"
        sys.path[:0] = ["", *own_path]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(module))
    else:
        sys.argv.insert(0, what)
        sys.path[:0] = [os.path.dirname(os.path.abspath(what)), *own_path]
        runpy.run_path(what, run_name="__main__")


def _place(fds: list[int], numbers: list[int]) -> None:
    """Give descriptors the numbers they have in the process that asked, and close all others."""
    free_fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, FREE_FD) for fd in fds]
    os.closerange(3, FREE_FD)
    for fd, number in zip(free_fds, numbers, strict=True):
        os.dup2(fd, number)
        os.close(fd)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
