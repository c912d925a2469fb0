"""Forked processes behave like started ones to their callers."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked_processes

pytestmark = pytest.mark.skipif(not forked_processes.IS_POSSIBLE, reason="processes are forked on Linux only")

TELL = """
import json, os, sys
json.dump({"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "folder": os.getcwd(),
           "arguments": sys.argv[1:], "environment": dict(os.environ), "main": __name__,
           "known": sorted({name.partition(".")[0] for name in sys.modules})}, sys.stdout)
"""


def test_forked_child_has_own_arguments_folder_and_environment(tmp_path):
    command = [sys.executable, "-c", TELL, "one", "zwei ä"]
    with forked_processes.Popen(
        command, cwd=tmp_path, env={"A": "1"}, stdout=subprocess.PIPE, start_new_session=True, text=True
    ) as process:
        report = json.loads(process.communicate()[0])
    assert (report["pid"], report["parent"], report["session"]) == (process.pid, os.getpid(), process.pid)
    assert (report["arguments"], report["folder"]) == (["one", "zwei ä"], str(tmp_path))
    assert (report["environment"], report["main"], process.returncode) == ({"A": "1"}, "__main__", 0)


def test_server_has_imported_foreign_modules_only():
    module_names = json.loads(forked_processes.run([sys.executable, "-c", TELL]).stdout)["known"]
    assert {"django", "google"} <= set(module_names)
    assert not {"devui", "sessions_app", "evals_app", "tests"} & set(module_names)


ROOMS = ("devui", "sessions_app", "evals_app")
ALL_KNOWN = "import json, sys; json.dump(sorted(sys.modules), sys.stdout)"


def imported_by(path: Path) -> set[str]:
    """Return the modules that a module of ours imports when it is imported itself."""
    result: set[str] = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Import):
            result.update(alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            result.add(statement.module)
    return result


def test_server_imports_everything_our_modules_need():
    module_names = set(json.loads(forked_processes.run([sys.executable, "-c", ALL_KNOWN]).stdout))
    root = Path(__file__).resolve().parent.parent
    expected = {name for room in ROOMS for path in (root / room).rglob("*.py") for name in imported_by(path)}
    own = sys.stdlib_module_names | {*ROOMS, *forked_processes.ASK_FOR_SETTINGS}
    missing = {name for name in expected - module_names if not {name, name.partition(".")[0]} & own}
    assert not missing, "name them in MODULES: else each process of the tests imports them anew"


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("import os; os._exit(4)", 4, ""),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_exit_status_is_returned(code, status, message):
    done = forked_processes.run([sys.executable, "-c", code])
    assert (done.returncode, message in done.stderr) == (status, True)


def test_descriptors_are_handed_down_and_no_others():
    reading, writing = os.pipe()
    code = "import os, sys; os.write(int(sys.argv[1]), b'hello'); print(*os.listdir('/proc/self/fd'))"
    with forked_processes.Popen(
        [sys.executable, "-c", code, str(writing)], pass_fds=[writing], stdout=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        open_there = {int(number) for number in process.communicate()[0].split()}
    assert os.read(reading, 10) == b"hello"
    os.close(reading)
    assert len(open_there - {0, 1, 2, writing}) == 1, "the folder that is listed"


async def test_asyncio_starts_forked_processes():
    with forked_processes.starts():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input())", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    assert await process.communicate(b"hello") == (b"hello\n", None)
    assert await process.wait() == 0
