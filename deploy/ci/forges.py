"""GitHub and GitLab for merge_shards.sh: the one comment on a pull request, and the stores of earlier runs.

    forges.py comment FILE    create or update the comment with the text of a file
    forges.py baseline FILE   download the newest store of the base branch; no file if none was stored yet

`baseline` asks for the newest run of the pull request's base branch (of a push: of the branch itself) that stored its
results, whether it was green or red; if the branch has none, for that of the default branch.

Writes one line about what was done, or why not. Exits 0, 1 (the forge refused or does not answer) or 2 (wrong
arguments). Needs nothing but Python. Environment: GITHUB_* or CI_* of the forge, GITHUB_TOKEN or GITLAB_TOKEN, and
DEVUI_NAME, DEVUI_DEFAULT_BRANCH, DEVUI_PULL_REQUEST, DEVUI_COMMENT_AUTHOR as action.yml sets them. DEVUI_FORGE_SECONDS
(180) limits a command with all its tries.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse, IncompleteRead
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

DEFAULT_SECONDS = 180.0
FIRST_WAIT, MAX_WAIT, TIMEOUT = 1 / 180, 1 / 6, 1 / 6
"""Waits between tries, and the time that one request may take to answer, as shares of the seconds of a command."""

TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
PERMISSION_HINT = (
    "The token may not do this: see its permissions. Pull requests of forks get a token that only reads."
)
PAGE = 100
"""Items that are requested at once: the most that both forges return."""
MAX_PAGES = 20
MAX_PIPELINES = 50
"""Pipelines of a branch that are searched for a store."""
CHUNK_BYTES = 1 << 20
MAX_COMMENT = 65_000
"""Characters of a comment: GitHub refuses more than 65,536."""
STORE = "devui-evals/merged.sqlite3"


class ForgeError(Exception):
    """The forge refused a request, or cannot be asked; the message says why and what to do."""


class NotAnswered(ForgeError):
    """The forge did not answer, or not completely: another try may succeed.

    Attributes:
        wait: seconds to wait before the next try, if the forge names them.
    """

    def __init__(self, message: str, wait: float | None = None) -> None:
        """Say what happened."""
        super().__init__(message)
        self.wait = wait


class Forge:
    """A code forge with its API."""

    def __init__(self, api: str, seconds: float) -> None:
        """Use an API for some seconds."""
        self._api, self._seconds = api.rstrip("/"), seconds
        self._end = time.monotonic() + seconds

    def try_until_answered(self, work: Callable[[], str]) -> str:
        """Call a function until the forge answers it, or the time is over; return what it returns.

        Raises:
            ForgeError: the forge refused, or did not answer in time.
        """
        for number in count():
            try:
                return work()
            except NotAnswered as error:
                wait = (
                    min(2**number * FIRST_WAIT, MAX_WAIT) * self._seconds
                    if error.wait is None
                    else error.wait
                )
                if wait >= self._end - time.monotonic():
                    raise ForgeError(
                        f"{error} Tries: {number + 1} in {self._seconds:g} s. Run the job again later."
                    ) from error
                sys.stderr.write(f"{error} Next try in {wait:.1f} s.\n")
                time.sleep(wait)
        raise AssertionError

    def call(
        self, method: str, path: str, token: tuple[str, str] | None, body: dict[str, str] | None = None
    ) -> bytes:
        """Return the response of the API. `token` is a header that authenticates.

        Raises:
            PermissionRefused: the token may not do this, or the forge has no such thing.
            ForgeError: the forge refused, or does not answer.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._api}{path}", data, method=method)  # noqa: S310 - the forge's own address
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_unredirected_header(*token)  # downloads are redirected to other servers
        timeout = max(min(self._seconds * TIMEOUT, self._end - time.monotonic()), 0.01)
        request_name = f"{method} {path.partition('?')[0]}"
        try:
            with urlopen(request, timeout=timeout) as response:  # noqa: S310
                return self._read_content(response)
        except HTTPError as error:
            raise _explain_status(request_name, error) from error
        except (OSError, HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
            raise NotAnswered(f"{request_name}: {reason}.") from error

    def _read_content(self, response: HTTPResponse) -> bytes:
        content = io.BytesIO()
        while chunk := response.read(CHUNK_BYTES):
            content.write(chunk)
            if time.monotonic() > self._end:
                raise TimeoutError("the download takes too long")
        if response.length:
            raise IncompleteRead(b"", response.length)
        return content.getvalue()


class PermissionRefused(ForgeError):
    """The token may not do this."""


class MissingResource(PermissionRefused):
    """The forge has no such thing, or does not show it to the token."""


def _explain_status(request_name: str, error: HTTPError) -> ForgeError:
    """Return the error that an HTTP status means."""
    message = f"{request_name}: HTTP status {error.code}."
    retry_after = error.headers.get("Retry-After", "")
    is_rate_limit = error.code == 403 and (retry_after or error.headers.get("X-RateLimit-Remaining") == "0")
    if error.code in TRANSIENT or is_rate_limit:
        return NotAnswered(message, float(retry_after) if retry_after.isdecimal() else None)
    if error.code in {401, 403, 404, 410}:
        return (MissingResource if error.code in {404, 410} else PermissionRefused)(
            f"{message} {PERMISSION_HINT}"
        )
    return ForgeError(message)


class GitHub(Forge):
    """GitHub, in a workflow."""

    def __init__(self, seconds: float) -> None:
        """Read the workflow's environment."""
        super().__init__(setting("GITHUB_API_URL"), seconds)
        self._token = ("Authorization", f"Bearer {setting('GITHUB_TOKEN')}")
        self._repository = f"/repos/{setting('GITHUB_REPOSITORY')}"

    def branches(self) -> list[str]:
        """Return the branches whose stores may be the baseline, the best first."""
        is_branch = os.environ.get("GITHUB_REF_TYPE", "branch") == "branch"
        pushed = os.environ.get("GITHUB_REF_NAME", "") if is_branch else ""
        return [os.environ.get("GITHUB_BASE_REF", "") or pushed, os.environ.get("DEVUI_DEFAULT_BRANCH", "")]

    def write_comment(self, marker: str, text: str) -> None:
        """Create the comment, or update the one with the marker by the author of the token."""
        number, author = setting("DEVUI_PULL_REQUEST"), setting("DEVUI_COMMENT_AUTHOR", "github-actions[bot]")
        path = f"{self._repository}/issues/{quote(number)}/comments"
        for comment in _read_pages(lambda query: self._get_json(f"{path}?{query}")):
            login = (comment["user"] or {}).get("login")  # accounts can be deleted
            if login == author and (comment["body"] or "").startswith(marker):
                own_path = f"{self._repository}/issues/comments/{comment['id']}"
                self.call("PATCH", own_path, self._token, {"body": text})
                return
        self.call("POST", path, self._token, {"body": text})

    def download_baseline(self, name: str, branch: str) -> bytes | None:
        """Return the store of the newest run of a branch that has one; None if there is none.

        A fork may have a branch of the same name, and its artifacts are in the same list: they are ignored.
        """
        path = f"{self._repository}/actions/artifacts?{urlencode({'name': f'{name}-baseline'})}"
        artifacts = [
            artifact
            for artifact in _read_pages(lambda query: self._get_json(f"{path}&{query}")["artifacts"])
            if _is_from(artifact, branch)
        ]
        if not artifacts:
            return None
        newest = max(artifacts, key=lambda artifact: str(artifact["created_at"]))
        if newest["expired"]:
            raise ForgeError(_expiry_message(branch))
        archive = self.call("GET", f"{self._repository}/actions/artifacts/{newest['id']}/zip", self._token)
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            return files.read(next(entry for entry in files.namelist() if entry.endswith(".sqlite3")))

    def _get_json(self, path: str) -> Any:
        return json.loads(self.call("GET", path, self._token))


def _is_from(artifact: dict[str, Any], branch: str) -> bool:
    run = artifact["workflow_run"] or {}
    return bool(run and run["head_branch"] == branch and run["head_repository_id"] == run["repository_id"])


def _expiry_message(branch: str) -> str:
    return f"The store of the branch {branch} has expired. Run the evals of this branch again."


class GitLab(Forge):
    """GitLab, in a pipeline. Without GITLAB_TOKEN, what everyone may read and what the token of the job downloads."""

    def __init__(self, seconds: float) -> None:
        """Read the pipeline's environment."""
        super().__init__(setting("CI_API_V4_URL"), seconds)
        own_token, job_token = (os.environ.get(name, "").strip() for name in ("GITLAB_TOKEN", "CI_JOB_TOKEN"))
        self._token = ("PRIVATE-TOKEN", own_token) if own_token else None
        self._download_token = self._token or (("JOB-TOKEN", job_token) if job_token else None)
        # the pipeline of a fork's merge request runs in the fork
        self._project = f"/projects/{setting('CI_MERGE_REQUEST_PROJECT_ID', setting('CI_PROJECT_ID'))}"

    def branches(self) -> list[str]:
        """Return the branches whose stores may be the baseline, the best first."""
        names = ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CI_COMMIT_BRANCH", "CI_DEFAULT_BRANCH")
        target, pushed, default = (os.environ.get(name, "") for name in names)
        return [target or pushed, default]

    def write_comment(self, marker: str, text: str) -> None:
        """Create the note, or update the one with the marker by the owner of the token.

        Raises:
            ForgeError: there is no token; or see `call`.
        """
        if self._token is None:
            raise ForgeError("GITLAB_TOKEN is not set. Pipelines of forks do not get it.")
        path = f"{self._project}/merge_requests/{setting('CI_MERGE_REQUEST_IID')}/notes"
        author = self._get_json("/user")["id"]
        for note in _read_pages(lambda query: self._get_json(f"{path}?{query}")):
            if note["author"]["id"] == author and note["body"].startswith(marker):
                self.call("PUT", f"{path}/{note['id']}", self._token, {"body": text})
                return
        self.call("POST", path, self._token, {"body": text})

    def download_baseline(self, name: str, branch: str) -> bytes | None:
        """Return the store of the newest pipeline of a branch that has one; None if there is none."""
        problem = ""
        for job in self._merge_jobs(name, branch):
            if (content := self._download_store(job["id"])) is not None:
                return content
            if (
                ""
                < (job.get("artifacts_expire_at") or "")
                < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            ):
                problem = problem or _expiry_message(branch)
            elif self._token is None:
                problem = (
                    problem
                    or f"The token of the job reads no store of the branch {branch}. Set GITLAB_TOKEN."
                )
        if problem:
            raise ForgeError(problem)
        return None

    def _merge_jobs(self, name: str, branch: str) -> Iterator[dict[str, Any]]:
        """Yield the jobs of a branch that merged shards, green and red, the newest first."""
        query = urlencode({"ref": branch, "per_page": MAX_PIPELINES})
        for pipeline in self._get_json(f"{self._project}/pipelines?{query}"):
            query = f"scope[]=success&scope[]=failed&per_page={PAGE}"
            jobs = self._get_json(f"{self._project}/pipelines/{pipeline['id']}/jobs?{query}")
            yield from (job for job in jobs if job["name"] == f"{name}-merge")

    def _download_store(self, job_id: int) -> bytes | None:
        """Return the store of a job; None if the job stored none, or it has expired."""
        try:
            return self.call("GET", f"{self._project}/jobs/{job_id}/artifacts/{STORE}", self._download_token)
        except MissingResource:
            return None

    def _get_json(self, path: str) -> Any:
        try:
            return json.loads(self.call("GET", path, self._token))
        except PermissionRefused as error:
            raise error if self._token else ForgeError(f"{error} Set GITLAB_TOKEN.") from error


def _read_pages(read: Callable[[str], Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of all pages of a list, the oldest first where the forge sorts them so."""
    for page in range(1, MAX_PAGES + 1):
        items = read(urlencode({"per_page": PAGE, "page": page, "sort": "asc"}))
        yield from items
        if len(items) < PAGE:
            return


def setting(name: str, default: str = "") -> str:
    """Return an environment variable.

    Raises:
        ForgeError: it is not set and has no default.
    """
    if value := os.environ.get(name, "").strip() or default:
        return value
    raise ForgeError(f"{name} is not set.")


def read_seconds_limit() -> float:
    """Return the seconds that a command may take.

    Raises:
        ForgeError: the variable is not a positive number.
    """
    text = os.environ.get("DEVUI_FORGE_SECONDS", "").strip() or str(DEFAULT_SECONDS)
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise ForgeError(f"DEVUI_FORGE_SECONDS is {text!r}. Set a number of seconds.")
    return float(text)


def write_comment(forge: GitHub | GitLab, name: str, file: Path) -> str:
    """Write the comment; return what was done."""
    marker = f"<!-- {name} -->"
    text = file.read_text(encoding="utf-8", errors="replace")
    forge.write_comment(marker, f"{marker}\n{text}"[:MAX_COMMENT])
    return "The comment is up to date."


def download_baseline(forge: GitHub | GitLab, name: str, file: Path) -> str:
    """Write the store of the first branch that has one into the file; return what was done."""
    branches = list(dict.fromkeys(filter(None, forge.branches())))
    if not branches:
        raise ForgeError("The base branch is not known. Set DEVUI_DEFAULT_BRANCH.")
    for branch in branches:
        if (content := forge.download_baseline(name, branch)) is not None:
            file.write_bytes(content)
            return f"Baseline: the newest store of the branch {branch}."
    return f"No baseline yet: no run of the branch {' or '.join(branches)} has stored its results."


COMMANDS = {
    "comment": (write_comment, "No comment was written"),
    "baseline": (download_baseline, "The baseline could not be fetched"),
}
"""Functions, and what it means if one fails."""

INVALID_RESPONSE_ERRORS = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    StopIteration,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
)
"""Errors of reading a response that is not what the API describes, for example half of it."""


def main(arguments: list[str]) -> int:
    """Run a command; return its exit status."""
    if len(arguments) != 2 or arguments[0] not in COMMANDS:
        sys.stderr.write(__doc__)
        return 2
    (command, failure), file = COMMANDS[arguments[0]], Path(arguments[1])
    name = os.environ.get("DEVUI_NAME", "").strip() or "devui-evals"

    def work() -> str:
        try:
            return command(forge, name, file)
        except INVALID_RESPONSE_ERRORS as error:
            raise NotAnswered(f"The forge's answer cannot be read ({error!r}).") from error

    try:
        seconds = read_seconds_limit()
        forge = GitLab(seconds) if os.environ.get("GITLAB_CI") else GitHub(seconds)
        line, status = forge.try_until_answered(work), 0
    except (ForgeError, OSError) as error:
        line, status = f"{failure}: {error}", 1
    sys.stdout.write(f"{line}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
