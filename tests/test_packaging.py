"""The wheel is complete: installed alone it serves, and another Django project can mount it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "devui",
    "sessions_app",
    "evals_app",
    "templates",
    "static",
)

FOREIGN_SETTINGS = """
from devui import embed
INSTALLED_APPS += embed.APPS
MIDDLEWARE += embed.MIDDLEWARE
TEMPLATES[0]["OPTIONS"]["context_processors"] += embed.CONTEXT_PROCESSORS
"""
FOREIGN_URLS = """
from django.http import HttpResponse
from django.urls import include, path

urlpatterns = [
    path("", lambda request: HttpResponse("<p style='color:red'>theirs</p>")),
    path("tools/devui/", include("devui.urls")),
]
"""
SERVER_SETUP = (
    "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'devui.settings'; import devui; devui.setup();"
)
"""Sets DevUI up with the settings of the server; programs that run agents have others."""

FOREIGN_VISIT = """
import asyncio, os
os.environ["DJANGO_SETTINGS_MODULE"] = "theirs.settings"
import httpx
from theirs.asgi import application

async def main():
    transport = httpx.ASGITransport(app=application)
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        page = await client.get("/tools/devui/sessions/", headers={"Accept": "text/html"})
        assert page.status_code == 200, page.text[:500]
        assert 'href="/tools/devui/state/' in page.text
        assert "default-src 'self'" in page.headers["content-security-policy"]
        created = await client.post("/tools/devui/apps/a/users/u/sessions", json={"state": {"n": 1}}, headers=own)
        assert created.json()["state"] == {"n": 1}, created.text
        foreign = {"Origin": "http://evil.example"}
        assert (await client.get("/tools/devui/list-apps", headers=foreign)).status_code == 403
        missing = await client.get("/tools/devui/api/v1/nothing")
        assert missing.json()["code"] == "not_found", missing.text
        theirs = await client.get("/")
        assert theirs.status_code == 200
        assert "content-security-policy" not in theirs.headers

asyncio.run(main())

from django.contrib.staticfiles import finders
from django.template.loader import get_template
assert "site-packages" in finders.find("devui/js/core/app.js"), finders.find("devui/js/core/app.js")
assert "site-packages" in get_template("devui/base.html").origin.name
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree, so that nothing is left in it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(
                ROOT / part, source / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / part, source / part)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(built), str(source))
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment with the wheel in it, and all else as here."""
    home = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    scripts = home / "bin"
    pip("--python", str(scripts / "python"), "install", "--no-deps", "--no-index", str(wheel))
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "everything_else.pth").write_text(sysconfig.get_paths()["purelib"])
    return scripts


def pip(*arguments: str) -> None:
    """Run pip without asking the network."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a command in a folder that is no checkout and return what it prints."""
    values_by_key = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DJANGO", "DEVUI", "DATABASE"))
    }
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**values_by_key, **environment},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_wheel_holds_every_template_and_static_file(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        files = [file.relative_to(ROOT) for file in (ROOT / folder).rglob("*") if file.is_file()]
        assert {f"devui/{file.as_posix()}" for file in files} <= packed
    assert not [name for name in packed if name.startswith(("tests/", "examples/", "templates/", "static/"))]


def test_the_wheel_states_its_license(wheel):
    packed = zipfile.ZipFile(wheel)
    [folder] = {name.split("/")[0] for name in packed.namelist() if ".dist-info/" in name}
    assert "License-Expression: Apache-2.0\n" in packed.read(f"{folder}/METADATA").decode()
    assert packed.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_holds_every_module(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    for room in ("devui", "sessions_app", "evals_app"):
        modules = {file.relative_to(ROOT).as_posix() for file in (ROOT / room).rglob("*.py")}
        assert modules <= packed


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_wheel_runs_with_the_locked_versions_on_every_python(wheel, tmp_path, python):
    if not shutil.which(python) or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no {python} here")
    uv = [Path(sys.executable).with_name("uv"), "--quiet"]
    run(tmp_path, *uv, "venv", "--no-python-downloads", "--python", python, "venv")
    locked = ["--constraints", ROOT / "requirements-dev.lock"]
    run(tmp_path, *uv, "pip", "install", "--python", "venv/bin/python", *locked, wheel)
    assert "run_evals" in run(tmp_path, "venv/bin/devui", "--help")
    modules = "devui.asgi, sessions_app.adk, evals_app.execution, devui.testing.plugin"
    run(tmp_path, "venv/bin/python", "-c", f"{SERVER_SETUP} import {modules}")


def test_wheel_and_sdist_of_a_commit_have_the_same_bytes_every_time(tmp_path):
    script = str(ROOT / "deploy" / "build_dist.py")
    for folder, umask, zone in (("first", 0o022, "UTC"), ("second", 0o077, "Asia/Tokyo")):
        command = [sys.executable, script, str(tmp_path / folder)]
        subprocess.run(command, env={**os.environ, "TZ": zone}, umask=umask, check=True)
    first, second = (
        {file.name: file.read_bytes() for file in (tmp_path / folder).iterdir()}
        for folder in ("first", "second")
    )
    assert sorted(name.rpartition(".")[2] for name in first) == ["gz", "whl"]
    assert first == second


def test_installed_it_has_a_command_that_explains_itself(scripts, tmp_path):
    printed = run(tmp_path, scripts / "devui", "web", "--help")
    assert "--host" in printed
    assert "agents_dir" in printed.lower()


def test_ci_files_install_the_wheel_beside_them(wheel, tmp_path):
    shutil.copytree(ROOT / "deploy/ci", tmp_path / "ci/devui")
    shutil.copy(wheel, tmp_path / "ci/devui")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    scripts = tmp_path / "venv/bin"
    path = os.pathsep.join([str(scripts), os.environ["PATH"]])
    run(tmp_path, "sh", "ci/devui/install.sh", PATH=path, PIP_NO_INDEX="1", PIP_NO_DEPS="1")
    assert (scripts / "devui").exists()


def test_installed_it_shows_its_pages(scripts, tmp_path):
    visit = (
        f"{SERVER_SETUP} import asyncio, httpx;"
        "from devui.asgi import application;"
        "client = httpx.AsyncClient(transport=httpx.ASGITransport(app=application), base_url='http://127.0.0.1');"
        "answers = [asyncio.run(client.get(path)) for path in ('/sessions/', '/static/devui/js/core/app.js')];"
        "assert {answer.status_code for answer in answers} == {200}, answers;"
        "print(devui.__file__)"
    )
    assert "site-packages" in run(tmp_path, scripts / "python", "-c", visit)
    assert (tmp_path / ".devui" / "devui.sqlite3").exists()


def test_a_foreign_project_mounts_it_by_three_lines_of_settings(scripts, tmp_path):
    run(tmp_path, scripts / "python", "-m", "django", "startproject", "theirs", ".")
    with (tmp_path / "theirs" / "settings.py").open("a") as settings:
        settings.write(FOREIGN_SETTINGS)
    (tmp_path / "theirs" / "urls.py").write_text(FOREIGN_URLS)
    (tmp_path / "visit.py").write_text(FOREIGN_VISIT)
    checked = subprocess.run(
        [scripts / "python", "manage.py", "check"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert checked.returncode == 0, checked.stderr
    run(tmp_path, scripts / "python", "manage.py", "migrate", "--verbosity", "0")
    run(tmp_path, scripts / "python", "visit.py")
