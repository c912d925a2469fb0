"""Deduplicated storage of model requests: each request repeats nearly all contents of the previous one. Pure.

A content, a tool or an instruction is a piece, named by the hash of its JSON. Lists use content-defined chunking: a
list is cut into runs at boundaries that the members' hashes determine, each run is a piece that names its members, and
so on, up to one piece for the whole list. Requests that share a beginning, middle or end share its pieces, so their
total size grows with the conversation and not with the number of requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from sessions_app.store import scopes
from sessions_app.store.redaction import redact

SHA_BYTES = 16

CHUNK_MEAN = 32
"""Average number of members of a chunk: one hash in this many ends a chunk."""

MAX_CHUNK = 256

MAX_TEXT = 200_000
"""Maximum length of a piece's text in characters; longer texts are truncated."""

HIDDEN = "hidden"
"""Replacement for credentials."""

_SECRETS = frozenset(
    (
        *("accesstoken", "apikey", "apikeystring", "authtoken", "clientsecret", "idtoken"),
        *("password", "privatekey", "refreshtoken", "secret", "token"),
    )
)
_HEADERS = frozenset(("headers", "extraheaders", "additionalheaders"))
_CUT = "…"


class Piece(NamedTuple):
    """A part of a request. `body` is its JSON, or a function that returns it when the piece is stored."""

    sha: str
    body: str | Callable[[], str]
    members: tuple[Piece, ...] = ()

    @property
    def text(self) -> str:
        """The stored JSON."""
        return self.body if isinstance(self.body, str) else self.body()


def make_piece(value: Any) -> Piece:
    """Return the piece of a JSON value, without credentials and overlong texts."""
    body = scopes.dumps(make_storable(value))
    return Piece(piece_sha(body), body)


def piece_sha(text: str) -> str:
    """Return the name of a piece: a hash of its JSON."""
    return blake2b(text.encode(errors="replace"), digest_size=SHA_BYTES).hexdigest()


def list_piece(members: Sequence[Piece]) -> Piece:
    """Return the piece of a list: chunks of members, chunks of chunks, up to one piece. Their stored key is `runs`."""
    level = [_make_chunk(chunk) for chunk in _cut_chunks(members)] or [_make_chunk(())]
    while len(level) > 1:
        level = [_make_chunk(chunk) for chunk in _cut_chunks(level)]
    return level[0]


def _make_chunk(members: Sequence[Piece]) -> Piece:
    names = [member.sha for member in members]
    kind = "runs" if members and _is_chunk(members[0]) else "pieces"
    body = scopes.dumps({kind: names})
    return Piece(piece_sha(body), body, tuple(members))


def _is_chunk(piece: Piece) -> bool:
    return isinstance(piece.body, str) and piece.body.startswith(('{"pieces":[', '{"runs":['))


def _cut_chunks(members: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Cut a list into chunks at members with matching hashes, so that an insertion moves no other boundary."""
    start = 0
    for end, member in enumerate(members, start=1):
        ends = int(member.sha[-4:], 16) % CHUNK_MEAN == 0
        if (ends and end - start > 1) or end - start == MAX_CHUNK:
            yield members[start:end]
            start = end
    if start < len(members):
        yield members[start:]


def read_members(body: str) -> tuple[bool, list[str]] | None:
    """Return whether a list piece names chunks, and the names; None if the piece is no list."""
    if not body.startswith(('{"pieces":[', '{"runs":[')):
        return None
    value = json.loads(body)
    return ("runs" in value), value.get("runs", value.get("pieces"))


def make_storable(value: Any) -> Any:
    """Return a JSON value without credentials and with overlong texts truncated."""
    return _truncate_texts(redact(value))


def _truncate_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else _truncate_text(value)
    if isinstance(value, list):
        return [_truncate_texts(item) for item in value]
    if isinstance(value, dict):
        return {name: _truncate_texts(item) for name, item in value.items()}
    return value


def _truncate_text(text: str) -> str:
    return f"{text[:MAX_TEXT]}{_CUT} ({len(text):,} characters; the first {MAX_TEXT:,} are stored)"


def strip_secrets(config: Any) -> Any:
    """Return a request's config without secrets: header values, keys, tokens."""
    if isinstance(config, list):
        return [strip_secrets(item) for item in config]
    if not isinstance(config, dict):
        return config
    return {name: _strip_secret(name, item) for name, item in config.items()}


def _strip_secret(name: str, value: Any) -> Any:
    plain = name.replace("_", "").replace("-", "").lower()
    if plain in _HEADERS and isinstance(value, Mapping):
        return dict.fromkeys(value, HIDDEN)
    if plain in _SECRETS and isinstance(value, str) and value:
        return HIDDEN
    return strip_secrets(value)
