"""Raw samples of live agents (`audio/pcm;rate=24000`) as WAV files, which browsers play. Pure."""

from __future__ import annotations

import re
import struct

DEFAULT_RATE_HZ = 24_000
"""Sampling rate of Gemini's speech, for a type that names none; what a microphone sends names its own."""

MAX_RATE_HZ = 384_000

_PCM = re.compile(r"audio/(?:pcm|l16|x-raw)\b", re.IGNORECASE)
_RATE = re.compile(r"\brate=(\d{3,6})\b")
_CHANNELS = re.compile(r"\bchannels=([12])\b")


def is_raw_audio(mime: str) -> bool:
    """Tell whether a media type is raw 16-bit audio without a header."""
    return _PCM.match(mime) is not None


def wrap_in_wav(samples: bytes, mime: str) -> bytes:
    """Return 16-bit little-endian samples as a WAV file, with the rate and channels that their type names."""
    rate_match, channels_match = _RATE.search(mime), _CHANNELS.search(mime)
    rate = min(int(rate_match[1]), MAX_RATE_HZ) if rate_match else DEFAULT_RATE_HZ
    channels = int(channels_match[1]) if channels_match else 1
    frame = 2 * channels
    body = samples[: len(samples) // frame * frame]
    header = struct.pack("<HHIIHH", 1, channels, rate, rate * frame, frame, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(body))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + header
        + (b"data" + struct.pack("<I", len(body)) + body)
    )
