"""Streamed text is shown once: while it arrives, or as the event that contains it."""

from __future__ import annotations

from sessions_app.live.streaming_text import StreamingText
from sessions_app.store.models import Event


def chunk(text: str, author: str = "agent", branch: str = "", thought: bool = False) -> dict:
    return {"n": 0, "type": "chunk", "author": author, "branch": branch, "text": text, "thought": thought}


def stored_frame(seq: int, author: str = "agent", branch: str = "") -> dict:
    return {"n": 0, "type": "stored", "seq": seq, "event_id": f"e{seq}", "author": author, "branch": branch}


def event(seq: int, author: str = "agent", branch: str = "") -> Event:
    return Event(seq=seq, author=author, branch=branch)


def says(pending: StreamingText) -> list[tuple[str, str]]:
    return [(stream.author, stream.text) for stream in pending.streams]


def test_chunks_merge_by_author_and_thoughts_stay_separate():
    pending = StreamingText()
    for frame in (chunk("hm", thought=True), chunk("It is "), chunk("sunny.")):
        assert pending.take(frame)
    [stream] = pending.streams
    assert (stream.thought, stream.text) == ("hm", "It is sunny.")


def test_branches_speak_side_by_side():
    pending = StreamingText()
    pending.take(chunk("a", branch="x"))
    pending.take(chunk("b", branch="y"))
    pending.take(chunk("c", branch="x"))
    assert [stream.text for stream in pending.streams] == ["ac", "b"]


def test_text_stays_until_the_event_that_holds_it_is_on_the_page():
    pending = StreamingText()
    pending.take(chunk("sunny"))
    assert not pending.take(stored_frame(7))
    assert says(pending) == [("agent", "sunny")]
    assert pending.mark_shown([event(7)])
    assert says(pending) == []


def test_an_event_ahead_of_the_stream_takes_its_text_along():
    pending = StreamingText()
    pending.take(chunk("sunny"))
    assert pending.mark_shown([event(7)])
    assert says(pending) == []
    assert not pending.take(stored_frame(7))
    pending.take(chunk("next"))
    assert says(pending) == [("agent", "next")]


def test_text_begun_after_the_stored_event_remains():
    pending = StreamingText()
    for frame in (chunk("first"), stored_frame(7), chunk("second")):
        pending.take(frame)
    pending.mark_shown([event(7)])
    assert says(pending) == [("agent", "second")]


def test_an_event_of_another_speaker_takes_nothing():
    pending = StreamingText()
    pending.take(chunk("sunny"))
    assert not pending.mark_shown([event(7, author="user"), event(8, branch="x")])
    assert says(pending) == [("agent", "sunny")]


def test_late_chunk_disappears_with_its_event():
    pending = StreamingText()
    pending.mark_shown([event(7)])
    pending.take(chunk("sun"))
    assert pending.take(stored_frame(7))
    assert says(pending) == []


def test_cut_off_text_disappears_at_the_end_of_the_run():
    pending = StreamingText()
    pending.take(chunk("sunn"))
    assert pending.take({"n": 9, "type": "end", "status": "cancelled"})
    assert says(pending) == []


def test_status_change_keeps_pending_text():
    pending = StreamingText()
    assert not pending.take({"n": 1, "type": "status", "status": "running"})


def test_events_that_the_page_had_before_leave_the_text_alone():
    pending = StreamingText(last_shown=6)
    pending.take(chunk("It is"))
    assert not pending.mark_shown([event(5), event(6)])
    assert says(pending) == [("agent", "It is")]
    assert pending.mark_shown([event(7)])
