"""Write docs/licenses.md: the licenses of all packages that DevUI runs with, as installed by `make install`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licenses.md"
NOT_LISTED = {"dev", "vertex", "optimize"}
"""Extras of which no package is listed: one for development, and those that the lock file leaves out."""

PLATFORM = {
    "python_version": "3.11",
    "python_full_version": "3.11.9",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
}
"""Environments whose packages are listed, so that the page does not depend on the machine that writes it."""

HEAD = """# Licenses of dependencies

DevUI is licensed under [Apache-2.0](../LICENSE). It contains no code of the packages below: `pip` installs them, each
under the license that its own metadata states. `make licenses` writes this page from these packages; a test fails if it
is out of date. It lists the packages for Python 3.11 on Linux, without development packages and the extra `vertex`.
Their versions are in `requirements-dev.lock`. The extra `optimize` adds gepa, MIT, which needs no other package.

The list prices of models (`sessions_app/prices/list_prices.json`) are data of the package
[genai-prices](https://pypi.org/project/genai-prices/), © Pydantic Services Inc., MIT; the file contains the license.

| package | license | needed by |
|---|---|---|
"""


def read_requirements() -> dict[str, list[Requirement]]:
    """Return the requirements of DevUI ("") and of its listed extras, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: of for name, of in project["optional-dependencies"].items() if name not in NOT_LISTED}
    return {
        name: [requirement for requirement in map(Requirement, lines) if requirement.name != "devui"]
        for name, lines in {"": project["dependencies"], **extras}.items()
    }


def find_packages(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of the packages required, and of all that they require."""
    queue, visited = list(requirements), set[tuple[str, frozenset[str]]]()
    while queue:
        requirement = queue.pop()
        visit = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if visit in visited:
            continue
        visited.add(visit)
        for line in metadata.requires(requirement.name) or []:
            dependency = Requirement(line)
            if any(is_needed(dependency, extra) for extra in ("", *requirement.extras)):
                queue.append(dependency)
    return {name for name, _ in visited}


def is_needed(requirement: Requirement, extra: str) -> bool:
    """Tell whether a package with this extra has the requirement on the listed platform."""
    return requirement.marker is None or requirement.marker.evaluate({**PLATFORM, "extra": extra})


def describe_license(name: str) -> str:
    """Return the license that the package's metadata states."""
    fields = metadata.metadata(name)
    classifiers = [
        line.split(" :: ")[-1] for line in fields.get_all("Classifier", []) if line.startswith("License ::")
    ]
    names = [name for name in fields.get_all("License", []) if "\n" not in name]  # others are whole texts
    license_text = fields.get("License-Expression") or ", ".join(names or classifiers)
    if not license_text:
        raise ValueError(
            f"The package {name} states no license in its metadata. Find its license, or remove the package."
        )
    return " ".join(license_text.split())


def compose_page() -> str:
    """Return the page with one row per package."""
    requirements = read_requirements()
    users = {name: ["DevUI"] for name in find_packages(requirements.pop(""))}
    for extra, extra_requirements in requirements.items():
        for name in find_packages(extra_requirements):
            if users.setdefault(name, []) != ["DevUI"]:
                users[name].append(f"`{extra}`")
    rows = [f"| {name} | {describe_license(name)} | {', '.join(users[name])} |\n" for name in sorted(users)]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(compose_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written.\n")
