"""The price file of this server: `prices.toml`, in the agents folder or DevUI's data folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from sessions_app.agents.folder import configured_folder
from sessions_app.file_problems import BadFile, read_toml
from sessions_app.prices.price_table import NO_PRICES, PriceFile, Prices

NAME = "prices.toml"


def current_prices() -> Prices:
    """Return the prices of this server."""
    return find_prices(price_folders())


def price_folders() -> list[Path]:
    """Return the folders that may hold the price file, in order: the agents folder, DevUI's data folder."""
    agents = configured_folder()
    folders = [agents.path, agents.root] if agents else []
    return list(dict.fromkeys([*folders, Path(getattr(settings, "DATA_DIR", ".devui"))]))


def find_prices(folders: Iterable[Path]) -> Prices:
    """Return the prices of the first folder with a price file. An invalid file has problems and no prices."""
    for path in (folder / NAME for folder in folders):
        try:
            state = path.stat()
        except OSError:
            continue
        return _cached_prices(path, state.st_mtime_ns, state.st_size)
    return NO_PRICES


@lru_cache(maxsize=16)
def _cached_prices(path: Path, _changed_ns: int, _size: int) -> Prices:
    try:
        return read_prices(path)
    except BadFile as error:
        return Prices(file=str(path), problems=tuple(error.problems))


def read_prices(path: Path) -> Prices:
    """Read a price file.

    Raises:
        BadFile: the file cannot be read, or entries are invalid; all problems are named.
    """
    hint = 'Prices are for 1,000,000 tokens: [[price]] model = "…", input, output.'
    content = read_toml(path, PriceFile, hint=hint)
    return Prices(tuple(content.price), content.currency, str(path))
