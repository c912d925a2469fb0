"""Text of other programs is decoded by its byte order mark, and the values of JSON are counted before it is parsed."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.file_problems import read_toml
from sessions_app.prices.price_table import PriceFile
from sessions_app.store import text_input

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32")
"""What editors write, and PowerShell's `>` and `Out-File`."""

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab\\",[]{}:é') | st.floats(allow_nan=False),
    lambda values: st.lists(values) | st.dictionaries(st.text(alphabet='k\\",['), values),
)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_of_every_encoding_of_windows_is_decoded_without_its_mark(encoding):
    assert text_input.decode_text("{Köln 😀".encode(encoding)) == "{Köln 😀"
    assert text_input.decode_start("{Köln".encode(encoding)[:-1]).startswith("{K")
    assert text_input.parse_json('{"city": "Köln"}'.encode(encoding)) == {"city": "Köln"}


def test_a_pipe_or_device_is_refused_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(OSError, match="is not a regular file"):
            text_input.read_file(tmp_path / name)
    (tmp_path / "file").write_text("abc")
    assert text_input.read_file(tmp_path / "file") == b"abc"
    assert text_input.read_file(tmp_path / "file", 2) == b"ab"


def test_text_in_an_unknown_encoding_is_refused():
    with pytest.raises(UnicodeDecodeError):
        text_input.decode_text("Köln".encode("latin-1"))


def count_values(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count_values, value.values()))
    return 1 + sum(map(count_values, value)) if isinstance(value, list) else 1


@given(JSON_VALUES, st.integers(1, 9), st.booleans())
def test_count_is_near_the_number_of_values_however_the_text_is_cut(value, size, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    counter = text_input.ValueCounter()
    for start in range(0, len(text), size):
        counter.add(text[start : start + size])
    assert count_values(value) - 1 <= counter.count <= 2 * count_values(value)


def test_json_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr(text_input.json, "loads", lambda text: pytest.fail("parsed"))
    with pytest.raises(text_input.TooManyValues, match="more than 1,000,000 values"):
        text_input.parse_json("[" + "0," * text_input.MAX_VALUES + "0]")


def test_texts_with_many_commas_are_one_value():
    text = ',"\\[{' * text_input.MAX_VALUES
    assert text_input.parse_json(json.dumps({"text": text})) == {"text": text}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_price_files_are_read_in_every_encoding(tmp_path, encoding):
    file = tmp_path / "prices.toml"
    file.write_bytes('# Köln\ncurrency = "EUR"\n'.encode(encoding))
    assert read_toml(file, PriceFile, hint="").currency == "EUR"
