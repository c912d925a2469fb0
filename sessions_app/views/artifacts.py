"""Artifacts: the files of all sessions and users, one file with its versions, uploads and deletion."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from devui.http import download, render_partial
from sessions_app import artifact_list, keeping, keyset, overview, realms, redact, watching
from sessions_app.artifacts import blobs, rows
from sessions_app.artifacts.rows import FileKey
from sessions_app.errors import BadInput, ContentMissing, NotFound
from sessions_app.forms import Pager, QueryForm, Watch
from sessions_app.found import find_session
from sessions_app.ids import ID_BYTES
from sessions_app.models import AgentSession, Artifact
from sessions_app.presentation import filetype, valuediff
from sessions_app.presentation.preview import LOOKED_AT, Preview, preview, type_of_text
from sessions_app.runs.compose import MOST_BYTES, type_of
from sessions_app.views.event import json_answer
from sessions_app.views.files import headers_of

LIST = "devui/artifacts/list.html"
FILE = "devui/artifacts/file.html"
UPLOAD = "devui/artifacts/upload.html"
DELETE = "devui/artifacts/delete.html"

MOST_ARRIVED = 99
"""Files counted as new; there may be more."""

VERSIONS_SHOWN = 100
"""Versions of a file that its page lists; every one has an address."""

NAME_LENGTH = 1_000
FILTERS = ("app", "user", "session", "scope", "realm")


class ArtifactsQuery(Pager):
    """Filters of the list of artifacts: `scope=user` leaves out those of sessions."""

    app = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    user = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    scope = forms.ChoiceField(required=False, choices=[("", "any"), ("user", "user")])
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)


class ArtifactsWatch(ArtifactsQuery, Watch):
    """A list of artifacts on screen."""


class FileQuery(QueryForm):
    """Which file is meant, by its name as agents know it; which version, and beside which other."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    name = forms.CharField(strip=False)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
    against = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
    view = forms.ChoiceField(required=False, choices=[("source", "source")])


class NameQuery(QueryForm):
    """Which artifact of a session is meant, as its events name it."""

    name = forms.CharField(strip=False)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)


class ContentQuery(QueryForm):
    """`save=1`: the browser saves the content instead of showing it."""

    save = forms.BooleanField(required=False)


class Upload(forms.Form):
    """A file to be saved as the next version of an artifact."""

    app = forms.CharField(label="App", strip=False, max_length=ID_BYTES)
    user = forms.CharField(label="User", strip=False, max_length=ID_BYTES)
    session = forms.CharField(label="Session id", required=False, strip=False, max_length=ID_BYTES)
    name = forms.CharField(label="Name", required=False, strip=False, max_length=NAME_LENGTH)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    file = forms.FileField(label="File", max_length=NAME_LENGTH)

    def clean_file(self) -> UploadedFile[Any]:
        """Refuse what is too large."""
        file: UploadedFile[Any] = self.cleaned_data["file"]
        if (file.size or 0) > MOST_BYTES:
            raise forms.ValidationError(
                f"The file has {(file.size or 0) / 1e6:.1f} MB; {MOST_BYTES / 1e6:.0f} MB is the most."
            )
        return file

    def clean(self) -> dict[str, Any]:
        """Name the file that is meant, and refuse one of a session that nobody knows."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        name = cleaned["name"] or cleaned["file"].name
        try:
            key = rows.file_key(
                cleaned["realm"], cleaned["app"], cleaned["user"], cleaned["session"] or None, name
            )
        except BadInput as error:
            raise forms.ValidationError(f"{error.message} {error.hint}") from error
        if key.session_id and not _is_known(key):
            self.add_error("session", f"User {key.user_id!r} of {key.app_name!r} has no such session.")
        return {**cleaned, "key": key}


@dataclass(frozen=True, slots=True)
class Row:
    """A file in the list: its newest version, its address, the session it was saved in."""

    artifact: Artifact
    key: FileKey
    url: str
    session: AgentSession | None

    @property
    def pk(self) -> int:
        """Key of the version."""
        return int(self.artifact.pk)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the files of all sessions and users, newest first."""
    query = ArtifactsQuery(request.GET).read()
    page = keyset.page(artifact_list.newest(_wanted(query)), "created_at", query["before"])
    sessions = artifact_list.sessions_of(page.rows)
    latest = page.rows[0].created_at if page.rows else 0.0
    context = {
        "page": page,
        "rows": [_row(artifact, sessions) for artifact in page.rows],
        "watch": _watch(query, watching.seen(page.rows, _mark), latest if page.is_first else None),
        "query": query,
        "is_filtered": any(query[name] for name in FILTERS),
        "upload": _address("artifact-upload", query, only=("app", "user", "session", "realm")),
        "apps": overview.app_names(),
        "elsewhere": (where := keeping.artifacts_elsewhere(query["app"])),
        "there": _there(query) if where and not query["realm"] else "",
    }
    return render_partial(request, LIST, context, partial="artifacts")


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    """Answer how a list on screen has changed: what left it, and how many came. 204: it has not."""
    query = ArtifactsWatch(request.GET).read()
    seen = watching.parse(query["shown"], int)
    found = artifact_list.newest(_wanted(query))
    gone = seen.gone(found.filter(pk__in=seen.marks).only("pk"))
    arrived = _arrived(query, seen)
    if not gone and arrived == (query["told"] or 0):
        return HttpResponse(status=204)
    context = {
        "changed": [],
        "gone": gone,
        "arrived": arrived,
        "many": MOST_ARRIVED,
        "is_first_row": bool(arrived and not seen.marks),
        "watch": _watch(query, seen.after([], gone, _mark), query["since"], arrived),
        "list": _address("artifacts", query),
    }
    return render(request, LIST + "#watch", context)


@require_safe
def file(request: HttpRequest) -> HttpResponse:
    """Show a version of a file, or how it differs from another, and which versions there are.

    Raises:
        NotFound: there is no such file, or no such version.
        ContentMissing: the file beside the store that holds the content is gone.
    """
    query = FileQuery(request.GET).read()
    key = _key(query)
    shown = _version(key, query["version"])
    saved = list(rows.versions(key).defer(*artifact_list.LARGE).order_by("-version")[: VERSIONS_SHOWN + 1])
    session = artifact_list.sessions_of([shown]).get(artifact_list.session_key(shown))
    found = _preview(shown, as_text=query["view"] == "source")
    context = {
        "key": key,
        "artifact": shown,
        "versions": [(each, file_url(key, each.version)) for each in saved[:VERSIONS_SHOWN]],
        "has_more": len(saved) > VERSIONS_SHOWN,
        "newest": saved[0].version if saved else shown.version,
        "session": session,
        "seq": artifact_list.event_of(shown, key.name, session) if session else None,
        "preview": found,
        "metadata": redact.redact(json.loads(shown.custom_metadata)),
        "link": json.loads(shown.part) if shown.holding == Artifact.Holding.LINK else None,
        "is_hidden": _is_hidden(shown),
        "others": [each for each in saved if each.version != shown.version],
        "source": query["view"] == "source",
        "url": file_url(key, shown.version),
        "acts": urlencode(_named(key)),
        "is_kept": key.realm.startswith(realms.ATTEMPT),
        **(_difference(key, shown, found, query["against"]) if query["against"] is not None else {}),
    }
    return render(request, FILE, context)


@require_safe
def of_session(request: HttpRequest, pk: int) -> HttpResponse:
    """Go to the page of a file by the name that an event of a session gives it.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    query = NameQuery(request.GET).read()
    key = rows.file_key(session.realm, session.app_name, session.user_id, session.session_id, query["name"])
    if not session.realm and keeping.artifacts_elsewhere(session.app_name) and rows.find(key) is None:
        named = {"app": session.app_name, "user": session.user_id, "session": session.session_id}
        return redirect(f"{reverse('artifacts')}?{urlencode(named)}")
    return redirect(file_url(key, query["version"]))


@require_safe
def content(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Serve the content of a version, typed by what it is and in a sandbox.

    Raises:
        NotFound: there is no such version, or it only links elsewhere.
        ContentMissing: its file beside the store is gone.
    """
    found = _by_pk(pk)
    opened = rows.opened(found)
    mime = filetype.sniff(opened.read(filetype.LOOKED_AT))
    opened.seek(0)
    answer = download(opened, "file", mime)
    del answer.headers["Content-Disposition"]
    saved = ContentQuery(request.GET).read()["save"]
    for name, value in headers_of(mime, found.filename, to_save=saved).items():
        answer.headers[name] = value
    answer.headers["Content-Length"] = str(found.size)
    return answer


@require_safe
def content_json(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer a version that is JSON; with a pointer a piece of it.

    Raises:
        NotFound: there is no such version, it is no JSON, or there is nothing at the pointer.
    """
    found = _by_pk(pk)
    text = b"" if found.size > LOOKED_AT else rows.content(found)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotFound(f"The artifact {found.filename!r} is no JSON.", hint="Download it.") from error
    return json_answer(request, text.decode())


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HttpRequest) -> HttpResponse:
    """Show the form of a new version or a new file; save it.

    Raises:
        BadInput: files of that realm are kept as they are, or this server's agents keep theirs elsewhere.
    """
    if request.method != "POST":
        given = {name: request.GET.get(name, "") for name in ("app", "user", "session", "name", "realm")}
        return _upload_form(request, Upload(initial=given), given)
    form = Upload(request.POST, request.FILES)
    given = {name: request.POST.get(name, "") for name in ("app", "user", "session", "name", "realm")}
    if not form.is_valid():
        return _upload_form(request, form, given)
    key: FileKey = form.cleaned_data["key"]
    keeping.refuse_artifact(key.app_name)
    _refuse_kept(key.realm)
    saved = _save(key, form.cleaned_data["file"])
    return redirect(file_url(key, saved.version))


@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest) -> HttpResponse:
    """Ask whether to delete a file with all its versions; delete it.

    Raises:
        NotFound: there is no such file.
        BadInput: files of that realm are kept as they are.
    """
    key = _key(FileQuery(request.POST if request.method == "POST" else request.GET).read())
    newest = _version(key, None)
    _refuse_kept(key.realm)
    if request.method == "POST":
        if hashes := rows.delete(key):
            rows.remove_unused(hashes)
        return redirect(_address("artifacts", _named(key) | {"session": key.session_id}))
    versions = rows.versions(key).count()
    context = {"key": key, "newest": newest, "count": versions, "fields": _named(key), "back": file_url(key)}
    return render_partial(request, DELETE, context, partial="question", target="dialog-content")


def _there(query: Mapping[str, Any]) -> str:
    """Return the address of a session's artifacts where another service keeps them; empty: no session is chosen."""
    named = {name: query[name] for name in ("app", "user", "session")}
    return f"{reverse('artifacts-there')}?{urlencode(named)}" if all(named.values()) else ""


def file_url(key: FileKey, version: int | None = None) -> str:
    """Return the page of a file; without a version that of its newest."""
    at = {} if version is None else {"version": str(version)}
    return f"{reverse('artifact')}?{urlencode(_named(key) | at)}"


def _named(key: FileKey) -> dict[str, str]:
    """Return what names a file in an address and in a form."""
    found = {"app": key.app_name, "user": key.user_id, "session": key.session_id, "name": key.name}
    return {name: value for name, value in (found | {"realm": key.realm}).items() if value}


def _key(query: Mapping[str, Any]) -> FileKey:
    key = rows.file_key(query["realm"], query["app"], query["user"], query["session"] or None, query["name"])
    if key.realm.startswith(realms.UNSEEN):
        raise _missing(key.name)
    return key


def _version(key: FileKey, version: int | None) -> Artifact:
    found = rows.find(key, version)
    if found is None:
        raise _missing(key.name, version)
    return found


def _by_pk(pk: int) -> Artifact:
    found = Artifact.objects.filter(pk=pk).first()
    if found is None or found.realm.startswith(realms.UNSEEN):
        raise _missing(str(pk))
    if found.holding == Artifact.Holding.LINK:
        raise NotFound(f"The artifact {found.filename!r} is a link: its content lies elsewhere.")
    return found


def _missing(name: str, version: int | None = None) -> NotFound:
    which = f"{name!r}" if version is None else f"{name!r} in version {version}"
    return NotFound(
        f"There is no artifact {which} in this store.",
        hint="It may have been deleted, or be kept by another artifact service; the list tells which there are.",
    )


def _preview(artifact: Artifact, *, as_text: bool = False) -> Preview:
    with rows.opened(artifact) as opened:
        start = opened.read(LOOKED_AT)
    is_text = as_text or (
        artifact.holding == Artifact.Holding.TEXT and filetype.sniff(start) == filetype.BINARY
    )
    return preview(start, artifact.size, artifact.filename, artifact.mime_type or "", as_text=is_text)


def _difference(key: FileKey, shown: Artifact, found: Preview, against: int) -> dict[str, Any]:
    """Return how a version differs from another one, or why that cannot be shown."""
    other = _version(key, against)
    try:
        before = _preview(other, as_text=True)
        comparable = _preview(other).kind.is_text and found.kind.is_text
    except ContentMissing as error:
        return {"other": other, "problem": error.message}
    if shown.sha256 == other.sha256:
        return {"other": other, "problem": "Both versions have the same content."}
    if not comparable:
        return {"other": other, "problem": "Only texts are compared line by line; one of these is none."}
    after = _preview(shown, as_text=True)
    old, new = json.dumps(before.text), json.dumps(after.text)
    cut = before.is_cut or after.is_cut
    return {"other": other, "lines": valuediff.lines(old, new), "cut": cut}


def _is_hidden(artifact: Artifact) -> bool:
    """Tell whether a version is what ADK's rewind saves to hide a file: data of nothing."""
    return (
        artifact.holding == Artifact.Holding.DATA
        and not artifact.size
        and artifact.mime_type == filetype.BINARY
    )


def _is_known(key: FileKey) -> bool:
    named = {"realm": key.realm, "app_name": key.app_name, "user_id": key.user_id}
    return (
        AgentSession.objects.filter(**named, session_id=key.session_id).exists()
        or rows.versions(key).exists()
    )


def _is_there(given: Mapping[str, str]) -> bool:
    """Tell whether what a form names is a file that there is."""
    try:
        key = rows.file_key(
            given["realm"], given["app"], given["user"], given["session"] or None, given["name"]
        )
    except BadInput:
        return False
    return rows.find(key) is not None


def _save(key: FileKey, sent: UploadedFile[Any]) -> Artifact:
    """Save what was sent as the next version of a file, typed by its content as an agent would be told it."""
    sent_bytes = sent.read()
    claimed = sent.content_type or ""
    if claimed in {"", filetype.BINARY}:
        claimed = mimetypes.guess_type(key.filename)[0] or ""
    mime = type_of(sent_bytes, claimed)
    if mime == "text/plain":
        mime = type_of_text(key.filename, mime)
    shell = json.dumps({"inlineData": {"mimeType": mime}})
    draft = rows.Draft(Artifact.Holding.DATA, shell, mime, "{}", key.session_id)
    with blobs.stored(sent_bytes) as payload:
        return rows.save(key, draft, payload)


def _upload_form(request: HttpRequest, form: Upload, given: Mapping[str, str]) -> HttpResponse:
    _refuse_kept(given["realm"])
    context = {
        "form": form,
        "given": given,
        "is_version": bool(given["name"]) and _is_there(given),
        "most": MOST_BYTES,
        "apps": overview.app_names(),
        "back": _address("artifacts", given, only=("app", "user", "session", "realm")),
    }
    status = 422 if form.errors else 200
    return render_partial(request, UPLOAD, context, partial="form", target="dialog-content", status=status)


def _refuse_kept(realm: str) -> None:
    if realm.startswith((realms.ATTEMPT, *realms.UNSEEN)):
        raise BadInput(
            "The artifacts of an eval attempt are kept as it left them.", hint="Work in a session of its own."
        )


def _wanted(query: Mapping[str, Any]) -> artifact_list.Wanted:
    return artifact_list.Wanted(
        query["app"], query["user"], query["session"], query["scope"] == "user", query["realm"]
    )


def _row(artifact: Artifact, sessions: Mapping[Any, AgentSession]) -> Row:
    key = FileKey(artifact.realm, artifact.app_name, artifact.user_id, artifact.session_id, artifact.filename)
    return Row(artifact, key, file_url(key), sessions.get(artifact_list.session_key(artifact)))


def _mark(artifact: Artifact) -> str:
    """Return a mark that never changes: a version is never written again."""
    return watching.mark_of(artifact.pk)


def _arrived(query: Mapping[str, Any], seen: watching.Seen[int]) -> int:
    """Return how many files wanted were saved after the newest that is shown, at most `MOST_ARRIVED`."""
    if query["since"] is None:
        return 0
    newer = artifact_list.newest(_wanted(query)).filter(created_at__gt=query["since"])
    return newer.exclude(pk__in=seen.marks).order_by("-created_at")[:MOST_ARRIVED].count()


def _watch(query: Mapping[str, Any], seen: watching.Seen[int], since: float | None, told: int = 0) -> str:
    """Return where a list asks how it has changed. Without `since` it does not hear of new files."""
    counting = {} if since is None else {"since": repr(since), "told": str(told)}
    return _address("artifact-changes", query, {"shown": str(seen), **counting})


def _address(
    route: str,
    query: Mapping[str, Any],
    more: Mapping[str, str] | None = None,
    only: tuple[str, ...] = FILTERS,
) -> str:
    """Return the address of a route with the filters of a query."""
    filters = {name: query[name] for name in only if query.get(name)}
    return f"{reverse(route)}?{urlencode({**filters, **(more or {})})}".removesuffix("?")
