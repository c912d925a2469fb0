"""Options of commands that order runs, and the parsing of their values."""

from __future__ import annotations

from argparse import ArgumentTypeError

from evals_app.cli.results import Add
from sessions_app.management.arguments import parse_path


def add_metric_options(add: Add) -> None:
    """Declare the options of metrics and their criteria."""
    add(
        "--metrics",
        type=_comma_list,
        metavar="a,b",
        help="judge by these (default: test_config.json, else ADK's)",
    )
    add(
        "--criteria",
        type=parse_criterion,
        action="append",
        default=[],
        metavar="NAME=THRESHOLD",
        help="threshold of a metric, or NAME.OPTION=VALUE for an option of its criterion; repeatable",
    )
    add(
        "--config",
        "--config-file-path",
        type=parse_path,
        metavar="FILE",
        help="a test_config.json",
    )


def _comma_list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_criterion(text: str) -> tuple[str, str]:
    """Return the name of a metric, or `NAME.OPTION`, and its value.

    Raises:
        ArgumentTypeError: the text is no `NAME=THRESHOLD`.
    """
    name, equals, value = text.partition("=")
    if not equals or ("." not in name and not _is_number(value)):
        raise ArgumentTypeError(f"{text!r} is no NAME=THRESHOLD, such as response_match_score=0.7")
    return name.strip(), value.strip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_limit(text: str) -> tuple[str, str]:
    """Return name and number of a limit.

    Raises:
        ArgumentTypeError: the text is no `NAME=NUMBER`.
    """
    name, equals, number = text.partition("=")
    if not equals:
        raise ArgumentTypeError(f"{text!r} is no NAME=NUMBER, such as seconds=600")
    return name.strip().replace("-", "_"), number.strip()
