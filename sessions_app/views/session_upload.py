"""Import of sessions from a file that a person uploads: a preview first, then the import."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse

from sessions_app.http import note_object, render_partial
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import NotFound
from sessions_app.transfer.writers.jobs import ImportJob

PAGE = "devui/sessions/upload.html"

MAX_BYTES = 20_000_000
"""Longest file; `manage.py import_sessions` has no limit."""

KEPT_S = 3600.0
"""Time for which a previewed file waits for its import, in seconds."""

_KEY = re.compile(r"[0-9a-f]{32}")


class SessionFile(forms.Form):
    """A file to look at, or with `upload` the key of one that was looked at."""

    file = forms.FileField(required=False)
    upload = forms.RegexField(_KEY, required=False)

    def clean_file(self) -> UploadedFile[Any] | None:
        """Refuse files that are too large, and those that are not JSON: stores are opened by the command only."""
        file: UploadedFile[Any] | None = self.cleaned_data["file"]
        if file is None:
            return None
        if (file.size or 0) > MAX_BYTES:
            raise forms.ValidationError(
                f"The file has {(file.size or 0) / 1e6:.1f} MB; the maximum is {MAX_BYTES / 1e6:.0f} MB."
                " manage.py import_sessions has no limit."
            )
        start = file.read(64).decode("utf-8-sig", errors="replace").lstrip()
        file.seek(0)
        if start[:1] not in ("{", "["):
            raise forms.ValidationError(
                "This file is not JSON. manage.py import_sessions imports other stores."
            )
        return file

    def clean(self) -> dict[str, Any]:
        """Require a file, or a key."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors and not (cleaned["file"] or cleaned["upload"]):
            self.add_error("file", "Choose a file.")
        return cleaned


async def upload(request: HttpRequest) -> HttpResponse:
    """Show the form; on POST what a file would import, or with its key import it.

    Raises:
        NotFound: the previewed file does not exist any more.
    """
    form = SessionFile(request.POST, request.FILES) if request.method == "POST" else SessionFile()
    if not form.is_bound or not form.is_valid():
        return await _render(request, form=form)
    if key := form.cleaned_data["upload"]:
        path = _find_upload(key)
        note_object(request, path.name)
        job = ImportJob(str(path))
        await asyncio.to_thread(job.run)
        path.unlink(missing_ok=True)
        return await _render(request, form=SessionFile(), job=job)
    key = await asyncio.to_thread(_keep_upload, form.cleaned_data["file"])
    note_object(request, f"{key}.json")
    job = ImportJob(str(_upload_path(key)), dry_run=True)
    await asyncio.to_thread(job.run)
    return await _render(request, form=form, job=job, upload=key, name=form.cleaned_data["file"].name)


async def _render(request: HttpRequest, **context: Any) -> HttpResponse:
    form: SessionFile = context["form"]
    job: ImportJob | None = context.get("job")
    status = 422 if form.errors or (job and job.problem) else 200
    return await units_of_work.read(
        render_partial,
        request,
        PAGE,
        {**context, "most": MAX_BYTES},
        partial="form",
        target="dialog-content",
        status=status,
    )


def _upload_path(key: str) -> Path:
    return Path(settings.DATA_DIR) / "uploads" / f"{key}.json"


def _keep_upload(file: UploadedFile[Any]) -> str:
    """Store a file until its import, under the hash of its content; remove those that nobody imported."""
    content = file.read()
    key = hashlib.sha256(content).hexdigest()[:32]
    path = _upload_path(key)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for other in path.parent.glob("*.json"):
        if other.stat().st_mtime < time.time() - KEPT_S:
            other.unlink(missing_ok=True)
    path.write_bytes(content)
    return key


def _find_upload(key: str) -> Path:
    path = _upload_path(key)
    if not path.is_file():
        raise NotFound(
            "The file that was looked at is gone.", hint="Choose the file again; it waits for an hour."
        )
    return path
