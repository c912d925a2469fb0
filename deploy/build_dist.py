"""Build a wheel and an sdist of HEAD reproducibly.

python deploy/build_dist.py dist

The same commit, Python, zlib and locked packages give the same bytes. Needs git, and `build` and `setuptools` in the
versions of the lock file.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
UMASK = 0o022


def build(target: Path) -> None:
    """Build the last commit into the folder `target`."""
    os.umask(UMASK)
    epoch = int(git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as output_folder:
        with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", "HEAD"))) as archive:
            archive.extractall(source, filter="tar")
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", output_folder, source]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        [sdist] = Path(output_folder).glob("*.tar.gz")
        normalize(sdist, epoch)
        shutil.copytree(output_folder, target, dirs_exist_ok=True)


def git(*arguments: str) -> bytes:
    """Run git in the project and return what it prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout


def normalize(sdist: Path, epoch: int) -> None:
    """Sort an sdist, set all its times, and remove its owner: setuptools packs files as it finds them."""
    content = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed:
        compressed.write(content.getvalue())


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
