"""Creates DevUI's store in this folder, and the API responses about it, with the DevUI of the working directory.

A store is created once, by the commit that it is named after, and not again by a later one:

    git worktree add /tmp/devui bc53678 && cd /tmp/devui && make install
    .venv/bin/python .../tests/data/stores/make_devui.py
"""

import contextlib
import gzip
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

FOLDER = Path(__file__).parent
NAME = "devui-0.1.0-" + subprocess.check_output(["git", "rev-parse", "--short=7", "HEAD"], text=True).strip()
TOLD = [
    "/apps/weather/users/ann/sessions/s1",
    "/apps/weather/users/bob/sessions/web",
    "/api/v1/evals/runs",
]


def command(*words):
    subprocess.run([sys.executable, *words], check=False)  # `run_evals` ends with 1 when a case fails


def ask(address, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@contextlib.contextmanager
def serve(port):
    server = [sys.executable, "manage.py", "web", "examples/agents", "--port", str(port)]
    process = subprocess.Popen(server)
    address = f"http://127.0.0.1:{port}"
    try:
        while not answers(address):
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def answers(address):
    try:
        return ask(f"{address}/health")
    except OSError:
        return None


def fill(address):
    ask(
        f"{address}/apps/weather/users/bob/sessions/web",
        {"state": {"kept": [1, {"two": 2}], "app:desk": "north"}},
    )
    for text in ("My name is Bob", "Compare Paris and 東京"):
        message = {"role": "user", "parts": [{"text": text}]}
        names = {"app_name": "weather", "user_id": "bob", "session_id": "web"}
        ask(f"{address}/run", {**names, "new_message": message})
    [session] = ask(f"{address}/api/v1/sessions?user=bob")["sessions"]
    ask(
        f"{address}/api/v1/sessions/{session['key']}",
        {"title": "Paris and 東京", "add_tags": ["kept"]},
        "PATCH",
    )
    events = ask(f"{address}/api/v1/sessions/{session['key']}/events")["events"]
    ask(f"{address}/api/v1/sessions/{session['key']}/fork", {"seq": events[3]["seq"]})
    note = {"filename": "note.txt", "artifact": {"text": "boots"}}
    ask(f"{address}/apps/weather/users/bob/sessions/web/artifacts", note)
    ask(f"{address}/apps/weather/users/bob/memory", {"session_id": "web"}, "PATCH")
    view = urllib.parse.urlencode({"name": "kept ones", "query": "q=tag:kept"})
    urllib.request.urlopen(f"{address}/sessions/views/", view.encode()).close()


def main():
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        store = Path(folder) / "devui.sqlite3"
        os.environ |= {"DATABASE_URL": f"sqlite:///{store}", "DEVUI_DATA_DIR": folder}
        port = free.getsockname()[1]
        free.close()
        command("examples/own_runner.py", "--user", "ann", "--session", "s1", "--pause", "0")
        command("manage.py", "run_evals", "examples/agents/weather", "one_fails_on_purpose")
        with serve(port) as address:
            fill(address)
        command("manage.py", "index_events")
        with serve(port) as address:
            bodies = {path: ask(address + path) for path in TOLD}
        with sqlite3.connect(store) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (FOLDER / f"{NAME}.json").write_text(json.dumps(bodies, ensure_ascii=False, indent=1) + "\n")
        with store.open("rb") as file, gzip.GzipFile(FOLDER / f"{NAME}.sqlite3.gz", "wb", mtime=0) as packed:
            shutil.copyfileobj(file, packed)


main()
