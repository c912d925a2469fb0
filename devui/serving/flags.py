"""The flags of `adk web`, by the same names, and their meanings here.

The names are those of `google/adk/cli/cli_tools_click.py`; a contract test compares them. A flag sets an environment
variable, or an option of the runtimes, or is accepted without effect; then the server prints a line that says so.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from devui.config import environment
from devui.runtime.config import RuntimeOptions


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        name: ADK's spelling without dashes; hyphens and underscores are equivalent.
        help: its effect here.
        variable: the environment variable that it sets.
        unused: why it has no effect here, and the alternative; printed when the flag is used.
        kind: type for argparse, or "switch" or "list".
    """

    name: str
    help: str = ""
    variable: str = ""
    unused: str = ""
    kind: type | str = str
    choices: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """Name in the parsed options."""
        return self.name.replace("-", "_")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the flag in both spellings to a parser."""
        spellings = sorted({f"--{self.key}", f"--{self.key.replace('_', '-')}"})
        text = (self.help or f"Accepted, without effect: {self.unused}").replace("%", "%%")
        if self.kind == "switch":
            parser.add_argument(*spellings, dest=self.key, action="store_true", help=text)
        elif self.kind == "list":
            parser.add_argument(*spellings, dest=self.key, action="append", default=[], help=text)
        else:
            parser.add_argument(
                *spellings,
                dest=self.key,
                type=str.lower if self.choices else self.kind,
                choices=self.choices,
                default=None,
                help=text,
            )


FLAGS = (
    Flag(
        "allow_origins",
        "Foreign origins that may call the server: 'https://example.com' or 'regex:…'. Can be repeated.",
        variable="DEVUI_ALLOW_ORIGINS",
        kind="list",
    ),
    Flag("url_prefix", "Path under which a proxy serves DevUI, such as /devui.", variable="DEVUI_URL_PREFIX"),
    Flag(
        "log_level",
        "Least level of log messages of the server and of the agents' processes.",
        variable="DEVUI_LOG_LEVEL",
        choices=environment.LOG_LEVELS,
    ),
    Flag(
        "session_service_uri",
        "Store of the agents' sessions, as an ADK URI: sqlite:///…, postgresql+asyncpg://…, agentengine://…. DevUI's"
        " store has a copy. memory:// keeps everything in a temporary store that is removed when the server ends.",
    ),
    Flag("artifact_service_uri", "Store of artifacts, as an ADK URI: gs://…, file://…, memory://."),
    Flag("memory_service_uri", "ADK's memory service, as an ADK URI: rag://…, agentengine://…, memory://."),
    Flag("default_llm_model", "Model of agents that name none."),
    Flag("extra_plugins", "ADK plug-ins for every agent, comma-separated: my.module.MyPlugin.", kind="list"),
    Flag("max_llm_calls", "Most model calls of one run; 0 or less for no limit.", kind=int),
    Flag("otel_to_cloud", "Send traces, metrics and logs to Google Cloud.", kind="switch"),
    Flag("enable_features", "ADK features to switch on, comma-separated.", kind="list"),
    Flag("disable_features", "ADK features to switch off, comma-separated.", kind="list"),
    Flag("reload_agents", unused="the next run always uses the changed agents.", kind="switch"),
    Flag("reload", unused="changed agents need no restart of this server.", kind="switch"),
    Flag("no_reload", unused="this server never restarts by itself.", kind="switch"),
    Flag("trace_to_cloud", unused="use --otel_to_cloud.", kind="switch"),
    Flag("a2a", unused="agents are not served to other agents; use `adk api_server --a2a`.", kind="switch"),
    Flag("eval_storage_uri", unused="evalsets are files of the agents, and results are in the store."),
    Flag("use_local_storage", unused="sessions are in the store that DATABASE_URL names.", kind="switch"),
    Flag("no_use_local_storage", unused="use --session_service_uri memory:// instead.", kind="switch"),
    Flag("avatar_config", unused="live video has ADK's own avatar; use `adk web` for another."),
    Flag("trigger_sources", unused="cloud triggers are not served; use `adk api_server`."),
    Flag("trigger_oidc_audience", unused="cloud triggers are not served; use `adk api_server`."),
    Flag("trigger_oidc_service_accounts", unused="cloud triggers are not served; use `adk api_server`."),
    Flag("logo-text", unused="ADK's front end under /dev-ui/ keeps its own name."),
    Flag("logo-image-url", unused="ADK's front end under /dev-ui/ keeps its own logo."),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `adk web` to a parser."""
    for flag in FLAGS:
        flag.add_to(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="Log everything, as --log_level debug.")


def export_to_environment(arguments: Sequence[str]) -> None:
    """Set the environment variables of flags for the settings. Invalid arguments are left to the command."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    add_flags(parser)
    try:
        options = vars(parser.parse_known_args(arguments)[0])
    except argparse.ArgumentError:
        return
    if options["verbose"]:
        options["log_level"] = "debug"
    for flag in FLAGS:
        if flag.variable and (value := options[flag.key]):
            os.environ[flag.variable] = value if isinstance(value, str) else ",".join(value)
    for name in _comma_names(options["enable_features"]):
        os.environ[f"ADK_ENABLE_{name}"] = "1"
    for name in _comma_names(options["disable_features"]):
        os.environ[f"ADK_DISABLE_{name}"] = "1"
    if options["session_service_uri"] in environment.IN_MEMORY:
        environment.use_temporary_store()


def runtime_options(options: dict[str, Any]) -> RuntimeOptions:
    """Return the options for the runtimes."""
    level = (
        "debug"
        if options["verbose"]
        else options["log_level"] or environment.read_text("DEVUI_LOG_LEVEL", "warning")
    )
    return RuntimeOptions(
        extra_plugins=list(_comma_names(options["extra_plugins"])),
        session_service_uri=session_service_uri(options),
        artifact_service_uri=options["artifact_service_uri"] or "",
        memory_service_uri=options["memory_service_uri"] or "",
        default_llm_model=options["default_llm_model"] or "",
        max_llm_calls=options["max_llm_calls"],
        otel_to_cloud=options["otel_to_cloud"],
        url_prefix=options["url_prefix"] or "",
        log_level=level.upper(),
    )


def session_service_uri(options: dict[str, Any]) -> str:
    """Return the URI of ADK's session service; empty for DevUI's store."""
    uri = options["session_service_uri"] or ""
    return "" if uri in environment.IN_MEMORY else uri


def unused_flag_notes(options: dict[str, Any]) -> list[str]:
    """Return a line for every given flag without effect."""
    return [f"--{flag.name}: {flag.unused}" for flag in FLAGS if flag.unused and options[flag.key]]


def _comma_names(values: Iterable[str]) -> Iterable[str]:
    return (name.strip() for part in values for name in part.split(",") if name.strip())
