"""Frames of a run and their readers."""

from __future__ import annotations

import asyncio

from sessions_app.runs.frame_log import MAX_FRAMES, FrameLog


def say(log: FrameLog, text: str, author: str = "weather", **fields) -> None:
    log.publish("chunk", author=author, branch="", text=text, thought=False, **fields)


def store(log: FrameLog, author: str = "weather") -> None:
    log.publish("stored", seq=1, event_id="e", author=author, branch="")


async def read(log: FrameLog, after: int = 0) -> list[dict]:
    return [frame async for frame in log.follow(after)]


def texts(frames: list[dict]) -> list[str]:
    return [frame["text"] for frame in frames if frame["type"] == "chunk"]


async def test_reader_gets_past_and_future_frames():
    log = FrameLog()
    say(log, "It is ")
    reader = asyncio.create_task(read(log))
    await asyncio.sleep(0)
    say(log, "sunny.")
    await asyncio.sleep(0)
    log.publish("end", status="done")

    frames = await reader

    assert texts(frames) == ["It is ", "sunny."]
    assert [frame["n"] for frame in frames] == [1, 2, 3]


async def test_late_reader_gets_pending_chunks_as_one():
    log = FrameLog()
    for word in ("It ", "is ", "sunny."):
        say(log, word)
    say(log, "Hm.", author="critic")
    log.publish("end", status="done")

    frames = await read(log)

    assert texts(frames) == ["It is sunny.", "Hm."]
    assert [frame["n"] for frame in frames] == [3, 4, 5]
    assert texts(await read(log, after=1)) == ["is sunny.", "Hm."]


async def test_only_chunks_of_the_stored_event_are_dropped():
    log = FrameLog()
    say(log, "It is sunny.")
    say(log, "Hm.", author="critic")
    store(log)
    log.publish("end", status="done")

    assert texts(await read(log)) == ["Hm."]


async def test_text_and_thought_are_never_joined():
    log = FrameLog()
    log.publish("chunk", author="a", branch="", text="let me see", thought=True)
    log.publish("chunk", author="a", branch="", text="It is", thought=False)
    log.publish("end", status="done")

    assert texts(await read(log)) == ["let me see", "It is"]


async def test_nothing_follows_the_end():
    log = FrameLog()
    log.publish("end", status="crashed")
    say(log, "too late")

    assert [frame["type"] for frame in await read(log)] == ["end"]


async def test_frame_received_twice_is_kept_once():
    log = FrameLog()
    frame = {"n": 1, "type": "chunk", "author": "a", "branch": "", "text": "It is", "thought": False}
    log.add(frame)
    log.add(frame)
    log.add({"n": 2, "type": "end", "status": "done"})

    assert texts(await read(log)) == ["It is"]


async def test_log_keeps_the_newest_frames():
    log = FrameLog()
    for n in range(MAX_FRAMES + 10):
        say(log, "x", event_id=str(n))
    log.publish("end", status="done")

    assert len(await read(log)) == MAX_FRAMES
