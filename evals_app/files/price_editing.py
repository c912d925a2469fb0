"""Edits of the price file on its page."""

from __future__ import annotations

from pathlib import Path

from evals_app.files.atomic_writes import FileChanged, create_file, replace_file, text_digest
from evals_app.files.parsing import read_text
from sessions_app.prices import check_prices
from sessions_app.store.errors import BadInput


def read_price_file(path: Path) -> str:
    """Return the text of the price file; empty without a file.

    Raises:
        BadFile: the file cannot be read.
    """
    return read_text(path, path.name) if path.exists() else ""


def save_price_file(path: Path, text: str, seen: str) -> None:
    """Store a valid text of the price file. `seen`: digest of the text that the user changed.

    Raises:
        BadFile: the text is invalid; all problems are named.
        FileChanged: the file has another text than the user saw.
        BadInput: the file cannot be written.
    """
    check_prices(text)
    before = read_price_file(path)
    if text_digest(before) != seen:
        raise FileChanged(path.name)
    try:
        if path.exists():
            replace_file(path, path.name, before, text)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            create_file(path, text)
    except FileExistsError:
        raise FileChanged(path.name) from None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be written: {error.strerror}.") from error
