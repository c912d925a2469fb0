"""Rate at which a server stores the spans of agents of other programs, and the growth of its memory meanwhile.

Each trace is a turn of an agent with two calls of a model and one of a tool, with messages of some hundred characters.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from benchmarks.figures import Figure
from benchmarks.serving import OURS, server, server_pid

SECONDS = 20.0
"""Length of the measurement; the goal is for a minute."""

WARM_UP_S = 10.0
"""Seconds after which the server has imported, and its indexer has caches."""

BATCH = 510
"""Spans of a request: about those of OpenTelemetry's exporters, and whole traces."""

SENDERS = 2
RATE, GROWTH_MB = 1_000, 50
TEXT = "A message of an agent about a parcel that cannot be found at any of the depots. " * 4


def build_spans(number: int) -> Iterator[dict[str, Any]]:
    """Yield name, parent and attributes of the spans of a turn, the inner ones first."""
    ask = [{"role": "user", "parts": [{"type": "text", "content": f"{number} {TEXT}"}]}]
    call = {"type": "tool_call", "id": "c", "name": "track", "arguments": {"number": str(number)}}
    called = [{"role": "assistant", "parts": [call]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": TEXT}]}]
    conversation = {"gen_ai.conversation.id": f"conversation-{number}", "gen_ai.agent.name": "parcels"}
    model = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 100}
    for asked, answered in ((ask, called), ([*ask, *called], answer)):
        messages = {
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(answered),
        }
        yield {**conversation, **model, **messages}
    yield {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "track", "gen_ai.tool.call.id": "c"}
    yield {**conversation, "gen_ai.operation.name": "invoke_agent"}
    yield {**conversation, "gen_ai.operation.name": "invoke_workflow"}


def build_batch(first: int) -> bytes:
    """Return a request with the turns from number `first` on."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(first, first + BATCH // 5):
        now = time.time_ns()
        for index, attributes in enumerate(build_spans(number), start=1):
            span = spans.add()
            span.trace_id, span.span_id = (number + 1).to_bytes(16), index.to_bytes(8)
            span.parent_span_id = b"" if index == 5 else (5 if index == 4 else 4).to_bytes(8)
            span.name, span.start_time_unix_nano, span.end_time_unix_nano = (
                "span",
                now + index,
                now + index + 1,
            )
            for name, value in attributes.items():
                attribute = span.attributes.add()
                attribute.key = name
                if isinstance(value, int):
                    attribute.value.int_value = value
                else:
                    attribute.value.string_value = value
    serialized: bytes = request.SerializeToString()
    return serialized


def send_batches(address: str, sender: int, until: float) -> int:
    """Send batches until a time; return the number of stored spans."""
    stored = 0
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        number = sender * 10_000_000
        while time.monotonic() < until:
            body = build_batch(number)
            response = client.post(
                "/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}
            )
            response.raise_for_status()
            refused = ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans
            stored += BATCH - refused
            number += BATCH // 5
    return stored


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Measure and print."""
    with server(OURS) as (address, _):
        send_batches(address, SENDERS, time.monotonic() + WARM_UP_S)
        pid = server_pid(address)
        before, begin = memory_mb(pid), time.monotonic()
        with ThreadPoolExecutor(SENDERS) as senders:
            counts = senders.map(
                lambda sender: send_batches(address, sender, begin + SECONDS), range(SENDERS)
            )
            stored = sum(counts)
        seconds, growth = time.monotonic() - begin, memory_mb(pid) - before
    print(
        Figure("received spans, stored and read", "/s", stored / seconds, RATE, more_is_better=True).as_line()
    )
    print(Figure(f"web memory after {SECONDS:.0f} s of received spans", "MB", growth, GROWTH_MB).as_line())


if __name__ == "__main__":
    main()
