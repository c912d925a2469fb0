"""Conversion of foreign events to ADK's wire form. Nothing is validated and nothing is lost.

Field names of ADK (`event_schema`) become camelCase; names in data of agents do not change. Values that ADK's models
would reject move to `customMetadata["devui_unknown"]` by their path, so that agents can still load the session.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from sessions_app.store.events.records import UNKNOWN_FIELDS
from sessions_app.store.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.event_schema import LENIENT, fold_name, wire_fields

REMOVED = "__ADK_SENTINEL_REMOVED__"
"""Value with which ADK for Java marks a removed key."""

_TEXTS = ("id", "author", "invocationId", "branch", "errorCode", "errorMessage", "modelVersion")
_MAPS = ("stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations")
_FREE_IN_AUTH = frozenset({"scopes", "additionalHeaders", "context", "customMetadata"})


class _WrongShape(Exception):
    """A value does not have the type of its field."""


def normalize_event(raw: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an event in wire form and descriptions of the changes.

    The caller sets `id`, `invocationId` and `timestamp`. A timestamp in another unit is converted.
    """
    strange: dict[str, Any] = {}
    wire = _normalize_model("Event", raw, "", strange)
    for name in _TEXTS:
        if name in wire and not isinstance(wire[name], str):
            wire[name] = str(wire[name])
    _fill_required(wire, strange)
    if not strange:
        return wire, ()
    metadata = wire.get("customMetadata") or {}
    wire["customMetadata"] = {**metadata, UNKNOWN_FIELDS: strange}
    return wire, tuple(f"{path}: moved to customMetadata.{UNKNOWN_FIELDS}" for path in strange)


def removed_keys(wire: dict[str, Any]) -> frozenset[str]:
    """Return the keys that the state delta marks as removed, and set their value to None."""
    delta = wire["actions"]["stateDelta"]
    keys = frozenset(key for key, value in delta.items() if value == REMOVED)
    delta.update(dict.fromkeys(keys))
    return keys


def _normalize_model(model: str, value: Any, path: str, strange: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _WrongShape
    fields = wire_fields(model)
    out: dict[str, Any] = {}
    for key, item in value.items():
        if item is None:
            continue
        where = f"{path}.{key}" if path else str(key)
        name, kind = fields.get(fold_name(str(key)), ("", ""))
        if not name and model in LENIENT:
            out[str(key)] = item
            continue
        if not name:
            strange[where] = item
            continue
        try:
            out[name] = _normalize_value(kind, item, where, strange)
        except _WrongShape:
            strange[where] = item
    return out


def _normalize_value(kind: str, item: Any, path: str, strange: dict[str, Any]) -> Any:
    if not kind:
        return item
    if kind == "bytes":
        return _normalize_bytes(item)
    if kind.startswith("["):
        if not isinstance(item, list):
            raise _WrongShape
        return [
            _normalize_model(kind[1:-1], element, f"{path}[{n}]", strange) for n, element in enumerate(item)
        ]
    if kind.startswith("{"):
        if not isinstance(item, Mapping):
            raise _WrongShape
        return {
            key: _normalize_model(kind[1:-1], element, f"{path}.{key}", strange)
            for key, element in item.items()
        }
    return _normalize_model(kind, item, path, strange)


def _normalize_bytes(item: Any) -> str:
    """Return bytes as URL-safe base64. The input is base64 in either alphabet, or a list of integers."""
    if isinstance(item, list):
        try:
            return base64.urlsafe_b64encode(bytes(item)).decode()
        except (TypeError, ValueError):
            raise _WrongShape from None
    if not isinstance(item, str):
        raise _WrongShape
    text = item.translate(_TO_URL_SAFE).rstrip("=")
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _WrongShape from None
    return base64.urlsafe_b64encode(plain).decode()


_TO_URL_SAFE = str.maketrans("+/", "-_")


def _fill_required(wire: dict[str, Any], strange: dict[str, Any]) -> None:
    """Add the fields that ADK always sends, and move values of a wrong type to `strange`."""
    actions = wire.setdefault("actions", {})
    for name in _MAPS:
        if not isinstance(actions.get(name, {}), dict):
            strange[f"actions.{name}"] = actions.pop(name)
        actions.setdefault(name, {})
    actions["requestedAuthConfigs"] = {
        key: _camel_case_keys(config) for key, config in actions["requestedAuthConfigs"].items()
    }
    wire.setdefault("nodeInfo", {}).setdefault("path", "")
    if not isinstance(wire.get("customMetadata", {}), dict):
        strange["customMetadata"] = wire.pop("customMetadata")
    if "longRunningToolIds" in wire:
        wire["longRunningToolIds"] = sorted(map(str, wire["longRunningToolIds"]))
    compaction = actions.get("compaction") or {}
    for holder, name in (
        (wire, "timestamp"),
        (compaction, "startTimestamp"),
        (compaction, "endTimestamp"),
    ):
        if name in holder:
            _normalize_time(holder, name, strange)


def _normalize_time(holder: dict[str, Any], name: str, strange: dict[str, Any]) -> None:
    try:
        holder[name] = parse_timestamp(holder[name])
    except ValueError:
        strange[name] = holder.pop(name)


def _camel_case_keys(value: Any) -> Any:
    """Return an AuthConfig with camelCase keys. Maps of scopes and headers keep their keys."""
    if isinstance(value, list):
        return [_camel_case_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    folded = {_camel_name(key): item for key, item in value.items() if item is not None}
    return {key: item if key in _FREE_IN_AUTH else _camel_case_keys(item) for key, item in folded.items()}


def _camel_name(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name).rstrip("_")
