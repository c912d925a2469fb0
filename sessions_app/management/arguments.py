"""Types of arguments that several commands take."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from pathlib import Path

from sessions_app.store.short_texts import truncate

MAX_QUOTED = 60


def parse_path(text: str) -> Path:
    """Return the path that an argument names, of a file that exists or not.

    Raises:
        ArgumentTypeError: no file can have this name: it is empty, too long, or leads through a loop of links.
    """
    if not text:
        raise ArgumentTypeError("the path is empty: name a file or a folder")
    try:
        os.stat(text)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except OSError as error:
        raise ArgumentTypeError(f"{truncate(text, MAX_QUOTED)!r} is not a path: {error.strerror}") from None
    return Path(text)


def parse_location(text: str) -> str:
    """Return the path or URL that an argument names.

    Raises:
        ArgumentTypeError: it is a path that no file can have.
    """
    return text if "://" in text else os.fspath(parse_path(text))
