"""Dependencies: their bounds, the lock file, and the page of their licenses."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections import defaultdict
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
NOT_LOCKED = {"vertex", "optimize"}
WITHOUT_MAJORS = {"django-template-partials", "setuptools"}
"""Packages with the year as version, or whose majors break only what few use: an upper bound would say nothing."""


def declared(*left_out: str) -> list[Requirement]:
    """Return the requirements of DevUI and of its extras on other packages."""
    extras = [lines for name, lines in PROJECT["optional-dependencies"].items() if name not in left_out]
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != "devui"]


def locked_versions() -> dict[str, list[Version]]:
    """Return the versions of each package in the lock file: two where Pythons need different ones."""
    versions = defaultdict(list)
    for name, version in re.findall(r"^([a-z0-9-]+)(?:\[[\w,-]+\])?==(\S+)", LOCK, re.MULTILINE):
        versions[name].append(Version(version))
    return versions


def test_lock_file_has_every_requirement_within_its_bounds():
    locked = locked_versions()
    outside = [
        f"{requirement}: {[str(version) for version in versions]}"
        for requirement in declared(*NOT_LOCKED)
        for versions in [locked.get(canonicalize_name(requirement.name), [])]
        if not versions or not all(requirement.specifier.contains(version) for version in versions)
    ]
    assert outside == [], "pyproject.toml has changed: make lock"


def test_lock_file_has_hashes_of_every_package_and_names_no_index():
    packages = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(packages) > 100
    assert [package for package in packages if "--hash=sha256:" not in package] == []
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_requirements_have_a_lower_bound_and_an_upper_one_where_majors_break():
    unbounded = {
        requirement.name
        for requirement in declared()
        if not {">=", "<"} <= {specifier.operator for specifier in requirement.specifier}
    }
    assert unbounded == WITHOUT_MAJORS
    assert all(">=" in str(requirement.specifier) for requirement in declared())


def test_page_of_licenses_is_up_to_date():
    compose_page = runpy.run_path(str(ROOT / "docs/list_licenses.py"))["compose_page"]
    assert (ROOT / "docs/licenses.md").read_text(encoding="utf-8") == compose_page(), "make licenses"
