"""Upload of a file as the next version of an artifact."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from sessions_app.console.message_draft import MAX_BYTES, detect_type
from sessions_app.http import note_object, render_partial
from sessions_app.presentation import file_type
from sessions_app.presentation.file_preview import text_mime_type
from sessions_app.sessions import overview, storage_location
from sessions_app.store.artifacts import artifact_versions, content_files
from sessions_app.store.artifacts.artifact_versions import FileKey
from sessions_app.store.errors import BadInput
from sessions_app.store.ids import ID_BYTES
from sessions_app.store.models import AgentSession, Artifact
from sessions_app.views.artifacts.file_address import file_url, list_url

UPLOAD = "devui/artifacts/upload.html"
NAME_LENGTH = 1_000


class Upload(forms.Form):
    """Form of an artifact upload."""

    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES)
    session = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    name = forms.CharField(label="Name", required=False, strip=False, max_length=NAME_LENGTH)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    file = forms.FileField(label="File", max_length=NAME_LENGTH)

    def clean_file(self) -> UploadedFile[Any]:
        """Refuse files above the size limit."""
        file: UploadedFile[Any] = self.cleaned_data["file"]
        if (file.size or 0) > MAX_BYTES:
            raise forms.ValidationError(
                f"The file has {(file.size or 0) / 1e6:.1f} MB; the maximum is {MAX_BYTES / 1e6:.0f} MB."
            )
        return file

    def clean(self) -> dict[str, Any]:
        """Build the artifact's key, and refuse unknown sessions."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        name = cleaned["name"] or cleaned["file"].name
        try:
            key = artifact_versions.file_key(
                cleaned["realm"], cleaned["app"], cleaned["user"], cleaned["session"] or None, name
            )
            artifact_versions.refuse_path(key.filename)
        except BadInput as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error
        if key.session_id and not _session_exists(key):
            self.add_error("session", f"User {key.user_id!r} of {key.app_name!r} has no such session.")
        return {**cleaned, "key": key}


def upload(request: HttpRequest) -> HttpResponse:
    """Show the upload form; on POST save the file.

    Raises:
        BadInput: the realm belongs to an eval attempt, or the app stores artifacts in another service.
    """
    if request.method != "POST":
        fields = {name: request.GET.get(name, "") for name in ("app", "user", "session", "name", "realm")}
        return _render_form(request, Upload(initial=fields), fields)
    form = Upload(request.POST, request.FILES)
    fields = {name: request.POST.get(name, "") for name in ("app", "user", "session", "name", "realm")}
    if not form.is_valid():
        return _render_form(request, form, fields)
    key: FileKey = form.cleaned_data["key"]
    note_object(request, *key.path, app=key.app_name)
    storage_location.refuse_artifact(key.app_name)
    artifact_versions.refuse_read_only(key.realm)
    saved = _save_file(key, form.cleaned_data["file"])
    return redirect(file_url(key, saved.version))


def _render_form(request: HttpRequest, form: Upload, fields: Mapping[str, str]) -> HttpResponse:
    artifact_versions.refuse_read_only(fields["realm"])
    context = {
        "form": form,
        "fields": fields,
        "is_version": bool(fields["name"]) and _file_exists(fields),
        "most": MAX_BYTES,
        "apps": overview.app_names(),
        "back": list_url("artifacts", fields),
    }
    status = 422 if form.errors else 200
    return render_partial(request, UPLOAD, context, partial="form", target="dialog-content", status=status)


def _file_exists(fields: Mapping[str, str]) -> bool:
    """Return whether the file that a form names exists."""
    try:
        key = artifact_versions.file_key(
            fields["realm"], fields["app"], fields["user"], fields["session"] or None, fields["name"]
        )
    except BadInput:
        return False
    return artifact_versions.find_version(key) is not None


def _session_exists(key: FileKey) -> bool:
    owner = {"realm": key.realm, "app_name": key.app_name, "user_id": key.user_id}
    return (
        AgentSession.objects.filter(**owner, session_id=key.session_id).exists()
        or artifact_versions.list_versions(key).exists()
    )


def _save_file(key: FileKey, uploaded: UploadedFile[Any]) -> Artifact:
    """Save an uploaded file as the next version, with the MIME type that messages to agents would use."""
    sent_bytes = uploaded.read()
    claimed = uploaded.content_type or ""
    if claimed in {"", file_type.BINARY}:
        claimed = mimetypes.guess_type(key.filename)[0] or ""
    mime = detect_type(sent_bytes, claimed)
    if mime == "text/plain":
        mime = text_mime_type(key.filename, mime)
    shell = json.dumps({"inlineData": {"mimeType": mime}})
    draft = artifact_versions.VersionMetadata(Artifact.Holding.DATA, shell, mime, "{}", key.session_id)
    with content_files.store_content(sent_bytes) as payload:
        return artifact_versions.save(key, draft, payload)
