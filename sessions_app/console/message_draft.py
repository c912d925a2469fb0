"""A message to an agent, read from a form: text, files, a state delta and a RunConfig.

Invalid values are reported at their fields. The runtime validates the RunConfig (`runs/dispatch`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict

from sessions_app.agents import cards, remotes
from sessions_app.console import pause_form, pause_points
from sessions_app.console.pause_points import PausePoints
from sessions_app.presentation import file_type, schema_form
from sessions_app.presentation.schema_form import FormField

MAX_FILES = 16
MAX_BYTES = 20_000_000
"""Maximum total size of a message's files: the event stores them inline, and models accept about as much."""

CONFIG_PREFIX = "config."
"""Prefix of the RunConfig's field names in a form."""

TEXT_TYPES = re.compile(
    r"(text|message|model)/.+|application/(?!octet-stream|pdf|zip|gzip|x-(7z|bzip|gzip|rar|tar|zip)|msword|wasm"
    r"|java-archive|vnd\.(ms-|oasis\.|openxmlformats|rar|sqlite3)).+"
)
"""MIME types that are accepted as declared for text content: they cannot be detected from the bytes.

Left out are types of files that are never text. Windows declares CSV files as `application/vnd.ms-excel`.
"""


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """A submitted message and its validation errors.

    Attributes:
        config: the filled fields of the RunConfig; empty if its schema is unknown.
        config_text: the RunConfig as JSON, if its schema is unknown.
        pause: the calls at which the run pauses.
        pause_texts: texts of the inputs that say so.
        errors: messages by the names of the form's fields.
    """

    text: str = ""
    files: tuple[UploadedFile[Any], ...] = ()
    state_delta: str = ""
    config: tuple[FormField, ...] = ()
    config_text: str = ""
    streaming: bool = True
    invocation_id: str = ""
    pause: PausePoints = field(default_factory=PausePoints)
    pause_texts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def is_valid(self) -> bool:
        """Tell whether the draft can be sent."""
        return not self.errors

    @property
    def run_config(self) -> dict[str, Any]:
        """The fields of the RunConfig that are set."""
        return dict(self.values.get("run_config") or {})

    def request(self) -> dict[str, Any]:
        """Return the value of `Run.request` for a valid draft."""
        parts = [*([{"text": self.text}] if self.text.strip() else []), *map(_file_part, self.files)]
        request: dict[str, Any] = {"streaming": self.streaming}
        if parts:
            request["new_message"] = {"role": "user", "parts": parts}
        if self.invocation_id:
            request["invocation_id"] = self.invocation_id
        if self.pause:
            request[pause_points.REQUEST_KEY] = self.pause.as_json()
        return request | self.values


def empty_draft(app_name: str) -> MessageDraft:
    """Return an empty draft."""
    return MessageDraft(config=tuple(config_fields(app_name)))


def read_draft(
    app_name: str, posted: QueryDict, files: Sequence[UploadedFile[Any]], *, streaming: bool
) -> MessageDraft:
    """Return the submitted message."""
    texts = {name: _unix_lines(posted.get(name, "")) for name in ("message", "state_delta", "run_config")}
    invocation_id = posted.get("invocation_id", "").strip()
    errors = _file_errors(files)
    values: dict[str, Any] = {}
    if not (texts["message"].strip() or files or invocation_id):
        errors["message"] = "The message is empty. Write text or add a file."
    for name in ("state_delta", "run_config"):
        values[name], problem = _json_object(texts[name])
        if problem:
            errors[name] = problem
    fields = schema_form.fill_fields(config_fields(app_name), posted)
    chosen, config = schema_form.read_value(fields)
    errors |= {field.input_name: field.error for field in schema_form.invalid_fields(config)}
    pause, pause_texts, pause_errors = pause_form.read_form(posted)
    errors |= pause_errors
    if pause and remotes.find_remote(app_name) is not None:
        errors[pause_form.MODEL_INPUT] = (
            "The agent runs on another server, which cannot pause. Untick the calls."
        )
    values["run_config"] = {**(chosen or {}), **(values["run_config"] or {})}
    return MessageDraft(
        text=texts["message"],
        files=tuple(files),
        state_delta=texts["state_delta"],
        config=tuple(config),
        config_text=texts["run_config"],
        streaming=streaming,
        invocation_id=invocation_id,
        pause=pause,
        pause_texts=pause_texts,
        errors=errors,
        values={name: value for name, value in values.items() if value},
    )


def config_fields(app_name: str) -> list[FormField]:
    """Return the empty fields of the RunConfig from the app's card; none before the app was loaded."""
    schema = cards.read_description(app_name).get("run_config") or {}
    return schema_form.sort_by_control(schema_form.build_fields(schema, CONFIG_PREFIX))


def detect_type(content: bytes, claimed: str) -> str:
    """Return the MIME type of a file: as declared, unless its bytes are certainly of another type."""
    detected = file_type.sniff(content).partition(";")[0]
    claimed = claimed.partition(";")[0].strip().lower()
    is_claimed_text = TEXT_TYPES.fullmatch(claimed) and file_type.is_text(content)
    if is_claimed_text or file_type.have_same_container(claimed, detected):
        return claimed
    if detected == file_type.BINARY:
        return claimed if claimed and not file_type.is_recognizable(claimed) else detected
    return detected


def total_size(files: Iterable[UploadedFile[Any]]) -> int:
    """Return the total size of files in bytes."""
    return sum(file.size or 0 for file in files)


def _file_part(file: UploadedFile[Any]) -> dict[str, Any]:
    file.seek(0)
    content = file.read()
    inline = {
        "displayName": file.name or "file",
        "mimeType": detect_type(content, file.content_type or ""),
        "data": base64.b64encode(content).decode(),
    }
    return {"inlineData": inline}


def _file_errors(files: Sequence[UploadedFile[Any]]) -> dict[str, str]:
    if len(files) > MAX_FILES:
        return {"files": f"{len(files)} files are too many: a message takes at most {MAX_FILES}."}
    size = total_size(files)
    if size > MAX_BYTES:
        return {
            "files": f"The files have {_format_megabytes(size)}; the limit is {_format_megabytes(MAX_BYTES)}."
        }
    empty_name = next((file.name for file in files if not file.size), None)
    return {"files": f"{empty_name} is empty."} if empty_name else {}


def _format_megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB".replace(".0 ", " ")


def _unix_lines(text: str) -> str:
    """Return a text with Unix line ends: browsers submit CRLF."""
    return text.replace("\r\n", "\n")


def _json_object(text: str) -> tuple[dict[str, Any] | None, str]:
    if not text.strip():
        return None, ""
    value, error = schema_form.parse_json_input(text)
    if error:
        return None, error
    if not isinstance(value, dict):
        return None, 'Enter a JSON object, such as {"city": "Paris", "user:name": "Ada"}.'
    return value, ""
