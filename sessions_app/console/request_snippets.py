"""Snippets in `curl` and Python that send the message of a form.

They use ADK's `POST /run_sse` where that path takes every field, and DevUI's `POST /api/v1/runs` for other fields of a
RunConfig and for sessions in a realm. Files are read when the snippet runs.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from django.urls import NoReverseMatch, reverse

from sessions_app.console.message_draft import MessageDraft
from sessions_app.presentation import file_type
from sessions_app.store.models import AgentSession

FILE_PLACEHOLDER = "\ufffefile:{}\uffff"
"""Placeholder for a file's content in the JSON. Typed text cannot contain these characters."""

LOGIN_VARIABLE = "DEVUI_TOKEN"
"""Environment variable that holds the token. No page shows the token itself."""

ADK_CONFIG_FIELDS = frozenset({"custom_metadata"})
"""Fields of a RunConfig that ADK's path takes."""


@dataclass(frozen=True, slots=True)
class RequestSnippet:
    """A POST request with a JSON body.

    Attributes:
        files: names of the files whose content goes into the body.
        with_token: this server has a login, so the request needs the API token.
    """

    url: str
    body: dict[str, Any]
    files: tuple[str, ...] = ()
    with_token: bool = False

    @classmethod
    def of(
        cls,
        session: AgentSession,
        draft: MessageDraft,
        files: Iterable[str],
        base: str,
        *,
        with_token: bool = False,
    ) -> RequestSnippet:
        """Return the request that sends a draft. `base` is the URL of this server."""
        names = tuple(files)
        parts: list[dict[str, Any]] = [{"text": draft.text}] if draft.text.strip() else []
        parts += [_file_part(number, name) for number, name in enumerate(names)]
        message = {"role": "user", "parts": parts} if parts else None
        if session.realm or draft.run_config.keys() - ADK_CONFIG_FIELDS:
            url = _mounted_url(base, "api/v1/runs")
            target: dict[str, Any] = {"session": session.pk}
            fields = {
                "message": message,
                "state_delta": draft.values.get("state_delta"),
                "invocation_id": draft.invocation_id,
                "run_config": draft.run_config,
            }
        else:
            url = _mounted_url(base, "run_sse")
            target = {
                "appName": session.app_name,
                "userId": session.user_id,
                "sessionId": session.session_id,
            }
            fields = {
                "newMessage": message,
                "stateDelta": draft.values.get("state_delta"),
                "invocationId": draft.invocation_id,
                "customMetadata": draft.run_config.get("custom_metadata"),
            }
        filled = {name: value for name, value in fields.items() if value}
        return cls(url, {**target, "streaming": draft.streaming, **filled}, names, with_token)

    def curl(self) -> str:
        """Return the request as a command for a POSIX shell."""
        text = json.dumps(self.body, ensure_ascii=False, indent=2)
        head = f"curl -N {_quote_word(self.url)} -H 'Content-Type: application/json'"
        if self.with_token:
            head += f' -H "Authorization: Bearer ${LOGIN_VARIABLE}"'
        if not self.files:
            return f"{head} -d {_quote_word(text)}"
        for sign in ("\\", "$", "`"):
            text = text.replace(sign, "\\" + sign)
        for number, name in enumerate(self.files):
            text = text.replace(_file_placeholder(number), f"$(base64 < {_quote_word(name)} | tr -d '\\n')")
        return f"{head} --data-binary @- <<JSON\n{text}\nJSON"

    def python(self) -> str:
        """Return the request as a Python program that uses httpx, a dependency of ADK."""
        body = _python_literal(self.body)
        for number, name in enumerate(self.files):
            body = body.replace(repr(_file_placeholder(number)), f"content_of({name!r})")
        standard = [*["import base64"] * bool(self.files), *["import os"] * self.with_token]
        standard += ["from pathlib import Path"] * bool(self.files)
        lines = [*standard, *[""] * bool(standard), "import httpx", ""]
        if self.files:
            lines += [
                "",
                "def content_of(name: str) -> str:",
                "    return base64.b64encode(Path(name).read_bytes()).decode()",
                "",
                "",
            ]
        arguments = "json=body, timeout=None"
        if self.with_token:
            lines.append(f'headers = {{"Authorization": f"Bearer {{os.environ[{LOGIN_VARIABLE!r}]}}"}}')
            arguments = f"{arguments}, headers=headers"
        return "\n".join(
            [
                *lines,
                f"body = {body}",
                f'with httpx.stream("POST", {self.url!r}, {arguments}) as response:',
                "    for line in response.iter_lines():",
                "        print(line)",
                "",
            ]
        )


def _file_part(number: int, name: str) -> dict[str, Any]:
    mime = mimetypes.guess_type(name)[0] or file_type.BINARY
    return {"inlineData": {"displayName": name, "mimeType": mime, "data": _file_placeholder(number)}}


def _file_placeholder(number: int) -> str:
    return FILE_PLACEHOLDER.format(number)


def _mounted_url(base: str, path: str) -> str:
    """Return the URL of a path below the mount path of DevUI."""
    try:
        root = reverse("home").lstrip("/")
    except NoReverseMatch:
        root = ""
    return urljoin(base, root + path)


def _quote_word(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _python_literal(value: Any, indent: int = 0) -> str:
    """Return a JSON value as an indented Python literal."""
    inner, end = "    " * (indent + 1), "    " * indent
    if isinstance(value, dict) and value:
        lines = "".join(
            f"{inner}{key!r}: {_python_literal(item, indent + 1)},\n" for key, item in value.items()
        )
        return f"{{\n{lines}{end}}}"
    if isinstance(value, list) and value:
        lines = "".join(f"{inner}{_python_literal(item, indent + 1)},\n" for item in value)
        return f"[\n{lines}{end}]"
    return repr(value)
