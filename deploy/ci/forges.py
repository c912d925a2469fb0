"""GitHub and GitLab for merge_shards.sh: the one comment on a pull request, and the store of the main branch.

    forges.py comment FILE    create or update the comment with the text of a file
    forges.py baseline FILE   download the newest store of the main branch; no file if there is none

Needs nothing but Python. Environment: GITHUB_* or CI_* of the forge, GITHUB_TOKEN or GITLAB_TOKEN, and
DEVUI_NAME, DEVUI_MAIN_BRANCH, DEVUI_PULL_REQUEST, DEVUI_COMMENT_AUTHOR as action.yml sets them.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

TIMEOUT_S = 60
FORBIDDEN = (
    " The token may not do this: see its permissions. Pull requests of forks get a token that only reads."
)
PAGE = 100
"""Comments and artifacts that are requested at once: the most that both forges return."""
MAX_COMMENT = 65_000
"""Characters of a comment: GitHub refuses more than 65,536."""


class ForgeError(Exception):
    """The forge refused a request, or cannot be asked; the message says why and what to do."""


class Forge:
    """A code forge with its API."""

    def __init__(self, api: str, token_header: tuple[str, str]) -> None:
        """Use an API with a header that authenticates."""
        self._api, self._token_header = api.rstrip("/"), token_header

    def call(self, method: str, path: str, body: dict[str, str] | None = None) -> bytes:
        """Return the response of the API.

        Raises:
            ForgeError: the forge refused, or could not be reached.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._api}{path}", data, method=method)  # noqa: S310 - the forge's own address
        request.add_header("Content-Type", "application/json")
        request.add_unredirected_header(*self._token_header)  # downloads are redirected to other servers
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
                return bytes(response.read())
        except HTTPError as error:
            if error.code == 404 and method == "GET":
                return b""
            hint = FORBIDDEN if error.code in {401, 403} else ""
            raise ForgeError(f"{method} {path}: HTTP status {error.code}.{hint}") from error
        except OSError as error:
            raise ForgeError(f"{method} {path}: {getattr(error, 'reason', error)}.") from error

    def comments(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all comments, the oldest first."""
        for page in count(1):
            query = urlencode({"per_page": PAGE, "page": page, "sort": "asc"})
            comments = json.loads(self.call("GET", f"{path}?{query}") or "[]")
            yield from comments
            if len(comments) < PAGE:
                return


class GitHub(Forge):
    """GitHub, in a workflow."""

    def __init__(self) -> None:
        """Read the workflow's environment."""
        super().__init__(setting("GITHUB_API_URL"), ("Authorization", f"Bearer {setting('GITHUB_TOKEN')}"))
        self._repository = f"/repos/{setting('GITHUB_REPOSITORY')}"

    def write_comment(self, marker: str, text: str) -> None:
        """Create the comment, or update the one with the marker by the author of the token."""
        number, author = setting("DEVUI_PULL_REQUEST"), setting("DEVUI_COMMENT_AUTHOR", "github-actions[bot]")
        path = f"{self._repository}/issues/{quote(number)}/comments"
        for comment in self.comments(path):
            login = (comment["user"] or {}).get("login")  # accounts can be deleted
            if login == author and (comment["body"] or "").startswith(marker):
                self.call("PATCH", f"{self._repository}/issues/comments/{comment['id']}", {"body": text})
                return
        self.call("POST", path, {"body": text})

    def download_baseline(self, name: str, branch: str) -> bytes:
        """Return the newest artifact of the main branch; empty if there is none.

        A fork may have a branch of the same name, and its artifacts are in the same list: they are ignored.
        """
        query = urlencode({"name": f"{name}-baseline", "per_page": PAGE})
        path = f"{self._repository}/actions/artifacts?{query}"
        listed = json.loads(_require(self.call("GET", path), path))
        own = [
            artifact
            for artifact in listed["artifacts"]
            if not artifact["expired"] and _is_of(artifact, branch)
        ]
        if not own:
            return b""
        newest = max(own, key=lambda artifact: str(artifact["created_at"]))
        archive = self.call("GET", f"{self._repository}/actions/artifacts/{newest['id']}/zip")
        if not archive:
            return b""
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            return files.read(next(entry for entry in files.namelist() if entry.endswith(".sqlite3")))


def _is_of(artifact: dict[str, Any], branch: str) -> bool:
    run = artifact["workflow_run"] or {}
    return bool(run and run["head_branch"] == branch and run["head_repository_id"] == run["repository_id"])


def _require(content: bytes, path: str) -> bytes:
    """Return a response. Forges answer 404 also to a token that may not read.

    Raises:
        ForgeError: the response was 404, which is empty.
    """
    if not content:
        raise ForgeError(f"GET {path}: HTTP status 404.{FORBIDDEN}")
    return content


class GitLab(Forge):
    """GitLab, in a pipeline."""

    def __init__(self) -> None:
        """Read the pipeline's environment."""
        super().__init__(setting("CI_API_V4_URL"), ("PRIVATE-TOKEN", setting("GITLAB_TOKEN")))
        self._project = f"/projects/{setting('CI_PROJECT_ID')}"

    def write_comment(self, marker: str, text: str) -> None:
        """Create the note, or update the one with the marker by the owner of the token."""
        path = f"{self._project}/merge_requests/{setting('CI_MERGE_REQUEST_IID')}/notes"
        author = json.loads(self.call("GET", "/user") or "{}").get("id")
        for note in self.comments(path):
            if note["author"]["id"] == author and note["body"].startswith(marker):
                self.call("PUT", f"{path}/{note['id']}", {"body": text})
                return
        self.call("POST", path, {"body": text})

    def download_baseline(self, name: str, branch: str) -> bytes:
        """Return the file of the newest successful pipeline of the main branch; empty if there is none."""
        job = urlencode({"job": f"{name}-merge"})
        file = "devui-evals/merged.sqlite3"
        path = f"{self._project}/jobs/artifacts/{quote(branch, safe='')}/raw/{file}?{job}"
        if not (content := self.call("GET", path)):
            _require(self.call("GET", self._project), self._project)
        return content


def setting(name: str, default: str = "") -> str:
    """Return an environment variable.

    Raises:
        ForgeError: it is not set and has no default.
    """
    if value := os.environ.get(name, "").strip() or default:
        return value
    raise ForgeError(f"{name} is not set.")


def main(arguments: list[str]) -> int:
    """Run a command; return its exit status: 0, 1 (the forge refused) or 2 (wrong arguments)."""
    if len(arguments) != 2 or arguments[0] not in {"comment", "baseline"}:
        sys.stderr.write(__doc__)
        return 2
    command, file = arguments[0], Path(arguments[1])
    name = os.environ.get("DEVUI_NAME", "").strip() or "devui-evals"
    main_branch = os.environ.get("CI_DEFAULT_BRANCH", "")
    try:
        forge = GitLab() if os.environ.get("GITLAB_CI") else GitHub()
        if command == "comment":
            marker = f"<!-- {name} -->"
            text = file.read_text(encoding="utf-8", errors="replace")
            forge.write_comment(marker, f"{marker}\n{text}"[:MAX_COMMENT])
        elif content := forge.download_baseline(name, setting("DEVUI_MAIN_BRANCH", main_branch)):
            file.write_bytes(content)
    except ForgeError as error:
        sys.stderr.write(f"{command}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
