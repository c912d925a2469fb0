"""OTLP over HTTP: spans and log records that other programs export to this server."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from sessions_app.otlp import received, wire, writes
from sessions_app.store.database import units_of_work
from sessions_app.store.database.gc_tuning import pause_collector

MAX_BATCH = 200
"""Most spans or log records in one transaction, since appends may wait for it."""

MAX_REASONS = 5
"""Most reasons for refused items in a response."""

log = logging.getLogger(__name__)

_thread = ThreadPoolExecutor(1, thread_name_prefix="devui-otlp")
"""Reads bodies one at a time, because reading holds the GIL and much memory."""


class Receiver(NamedTuple):
    """Reader and writer of the items of a signal.

    Attributes:
        read: converts an item; raises `received.InvalidItem`.
        find_trace: returns the id of the trace of a converted item.
        save: writes converted items by the ids of their traces, and returns the reasons for refused ones.
    """

    signal: wire.Signal[Any]
    read: Callable[[Any], Any]
    find_trace: Callable[[Any], str]
    save: Callable[[Sequence[tuple[str, Sequence[Any]]]], list[str]]


SPANS = Receiver(wire.TRACES, received.read_span, lambda span: span.row.trace_id, writes.save_spans)
RECORDS = Receiver(wire.LOGS, received.read_record, lambda record: record.trace_id, writes.save_records)


async def receive_traces(request: HttpRequest) -> HttpResponse:
    """Store spans.

    Raises:
        BadInput, TooLarge, UnsupportedMedia: the request as a whole cannot be read.
    """
    return await _receive(request, SPANS)


async def receive_logs(request: HttpRequest) -> HttpResponse:
    """Store log records that belong to spans.

    Raises:
        BadInput, TooLarge, UnsupportedMedia: the request as a whole cannot be read.
    """
    return await _receive(request, RECORDS)


async def receive_metrics(request: HttpRequest) -> HttpResponse:
    """Say that metrics are not stored, without an error that their exporter would log every minute."""
    media_type = request.content_type if request.content_type == wire.JSON else wire.PROTOBUF
    answer = wire.build_response(wire.METRICS, media_type, 0, "DevUI stores no metrics.")
    return HttpResponse(answer, content_type=media_type)


async def _receive(request: HttpRequest, receiver: Receiver) -> HttpResponse:
    media_type = request.content_type or ""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    body = request.body
    loop = asyncio.get_running_loop()
    by_trace, refusals = await loop.run_in_executor(_thread, _read_body, receiver, body, media_type, encoding)
    for batch in _iter_batches(by_trace):
        refusals += await units_of_work.write(receiver.save, batch)
    message = _describe_refusals(refusals)
    if refusals:
        log.warning("OTLP: %d %ss refused: %s", len(refusals), receiver.signal.noun, message)
    answer = wire.build_response(receiver.signal, media_type, len(refusals), message)
    return HttpResponse(answer, content_type=media_type)


def _iter_batches(by_trace: Mapping[str, Sequence[Any]]) -> Iterator[list[tuple[str, Sequence[Any]]]]:
    """Yield items by the ids of their traces in batches of at most `MAX_BATCH` items."""
    batch: list[tuple[str, Sequence[Any]]] = []
    count = 0
    for trace_id, items in by_trace.items():
        for start in range(0, len(items), MAX_BATCH):
            part = items[start : start + MAX_BATCH]
            if batch and count + len(part) > MAX_BATCH:
                yield batch
                batch, count = [], 0
            batch.append((trace_id, part))
            count += len(part)
    if batch:
        yield batch


def _read_body(
    receiver: Receiver, body: bytes, media_type: str, encoding: str
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the items of a body by the ids of their traces, and the reasons for refused ones."""
    by_trace: dict[str, list[Any]] = {}
    refusals: list[str] = []
    with pause_collector():
        unpacked = wire.unpack_body(body, encoding, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        for item in wire.read_items(receiver.signal, unpacked, media_type):
            if isinstance(item, wire.UnreadableItem):
                refusals.append(item.reason)
                continue
            try:
                converted = receiver.read(item)
            except received.InvalidItem as error:
                refusals.append(str(error))
            else:
                by_trace.setdefault(receiver.find_trace(converted), []).append(converted)
    return by_trace, refusals


def _describe_refusals(refusals: Iterable[str]) -> str:
    """Return the most frequent reasons, each with its number."""
    counts = Counter(refusals)
    reasons = [f"{count} × {reason}" for reason, count in counts.most_common(MAX_REASONS)]
    more = f"; and {len(counts) - MAX_REASONS} other reasons" if len(counts) > MAX_REASONS else ""
    return "; ".join(reasons) + more
