"""URLs and form fields that identify an artifact by app, user, session and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.urls import reverse

from sessions_app.forms.query import QueryForm
from sessions_app.store import realms
from sessions_app.store.artifacts import artifact_versions
from sessions_app.store.artifacts.artifact_versions import FileKey
from sessions_app.store.ids import ID_BYTES

OWNERS = ("app", "user", "session", "realm")
"""Filters that select the owner of files."""

FILTERS = (*OWNERS, "name", "scope")


class FileQuery(QueryForm):
    """A file by the name that agents use, a version, and optionally a version to compare `against`."""

    app = forms.CharField(strip=False, max_length=ID_BYTES)
    user = forms.CharField(strip=False, max_length=ID_BYTES)
    session = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    name = forms.CharField(strip=False)
    realm = forms.CharField(required=False, strip=False, max_length=ID_BYTES)
    version = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
    against = forms.IntegerField(required=False, min_value=0, max_value=2**63 - 1)
    view = forms.ChoiceField(required=False, choices=[("source", "source")])


def file_url(key: FileKey, version: int | None = None) -> str:
    """Return the URL of a file's page; version None is the newest."""
    version_query = {} if version is None else {"version": str(version)}
    return reverse("artifact", query=key_parameters(key) | version_query)


def key_parameters(key: FileKey) -> dict[str, str]:
    """Return the parameters that identify a file in URLs and forms."""
    parameters = {"app": key.app_name, "user": key.user_id, "session": key.session_id, "name": key.name}
    return {name: value for name, value in (parameters | {"realm": key.realm}).items() if value}


def list_url(route: str, query: Mapping[str, Any]) -> str:
    """Return the URL of a list route with the owner of files that a query names."""
    owner = {name: query[name] for name in OWNERS if query.get(name)}
    return reverse(route, query=owner)


def make_file_key(query: Mapping[str, Any]) -> FileKey:
    """Return the file that a `FileQuery` names.

    Raises:
        NotFound: pages do not show the file's realm.
    """
    key = artifact_versions.file_key(
        query["realm"], query["app"], query["user"], query["session"] or None, query["name"]
    )
    if key.realm.startswith(realms.HIDDEN):
        raise artifact_versions.artifact_missing(key.name)
    return key
