"""The price file of this server: `prices.toml`, in the agents folder or DevUI's data folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from sessions_app.agents.folder import configured_folder
from sessions_app.file_problems import BadFile, parse_toml, read_toml
from sessions_app.prices.list_prices import read_list_date
from sessions_app.prices.price_table import DEFAULT_CURRENCY, PriceFile, Prices

NAME = "prices.toml"
HINT = 'Prices are for 1,000,000 tokens: [[price]] model = "…", input, output.'


def current_prices() -> Prices:
    """Return the prices of this server."""
    return find_prices(price_folders())


def price_folders() -> list[Path]:
    """Return the folders that may hold the price file, in order: the agents folder, DevUI's data folder."""
    agents = configured_folder()
    folders = [agents.path, agents.root] if agents else []
    return list(dict.fromkeys([*folders, Path(getattr(settings, "DATA_DIR", ".devui"))]))


def find_price_path() -> Path:
    """Return the path of the price file; without one, where DevUI would create it: in its data folder."""
    paths = [folder / NAME for folder in price_folders()]
    return next((path for path in paths if path.exists()), paths[-1])


def check_prices(text: str) -> None:
    """Check the text of a price file.

    Raises:
        BadFile: it is invalid; all problems are named.
    """
    parse_toml(text.encode(errors="surrogatepass"), PriceFile, name=NAME, hint=HINT)


def find_prices(folders: Iterable[Path]) -> Prices:
    """Return the prices of the first folder with a price file, and the list prices, which are in US dollars.

    An invalid file has problems and no prices.
    """
    for path in (folder / NAME for folder in folders):
        try:
            state = path.stat()
        except OSError:
            continue
        return _cached_prices(path, state.st_mtime_ns, state.st_size)
    return Prices(list_date=read_list_date())


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
    content = read_toml(path, PriceFile, hint=HINT)
    list_date = read_list_date() if content.currency == DEFAULT_CURRENCY else ""
    return Prices(tuple(content.price), content.currency, str(path), list_date)
