"""`manage.py run_evals AGENT_DIR EVALSET…`: evalsets run from the command line, by the engine the pages use."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
import uuid
import warnings
from argparse import ArgumentTypeError
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from evals_app import configs, exports, launch, library, writes
from evals_app.launch import Order
from evals_app.models import EvalRun, EvalSet
from evals_app.terminal import Console
from sessions_app import db
from sessions_app.agents import AgentsFolder, is_agent, open_folder
from sessions_app.errors import BadInput, DevUIError, NotFound
from sessions_app.runs import processes
from sessions_app.schema import ensure_schema

NOT_ALL_PASSED, COULD_NOT_RUN, INTERRUPTED = 1, 2, 130

FILES: dict[str, Callable[[Sequence[EvalRun]], str]] = {
    "junit": exports.as_junit,
    "json": exports.as_json,
    "html": exports.as_html,
}


@dataclass(frozen=True)
class Wanted:
    """One EVALSET argument: a file or an id, and the cases of it (empty: all)."""

    name: str
    cases: tuple[str, ...] = ()

    @classmethod
    def parse(cls, argument: str) -> Wanted:
        """Read `name[:case1,case2]`. The longest part that is a file is the name, else what is before the colon."""
        if Path(argument).is_file():
            return cls(argument)
        colons = [place for place, sign in enumerate(argument) if sign == ":"]
        files = [place for place in colons if Path(argument[:place]).is_file()]
        place = max(files, default=min(colons, default=len(argument)))
        cases = (case.strip() for case in argument[place + 1 :].split(","))
        return cls(argument[:place], tuple(case for case in cases if case))


class Command(BaseCommand):
    """Exits 0 when every attempt passed, 1 when one did not, 2 when it could not run."""

    help = "Run evalsets against an agent. Exits 0: all passed, 1: one did not, 2: could not run."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments; underscores work for hyphens, as in ADK's own commands."""
        add = parser.add_argument
        add("agent_dir", type=Path, help="folder of the agent")
        add(
            "evalsets",
            nargs="+",
            type=Wanted.parse,
            metavar="EVALSET[:case1,case2]",
            help="a file, or the id of one",
        )
        add(
            "--metrics",
            type=_words,
            metavar="a,b",
            help="judge by these (default: test_config.json, else ADK's)",
        )
        add(
            "--criteria",
            type=_criterion,
            action="append",
            default=[],
            metavar="NAME=THRESHOLD",
            help="repeatable",
        )
        add(
            "--config",
            "--config-file-path",
            "--config_file_path",
            type=Path,
            metavar="FILE",
            help="a test_config.json",
        )
        add("--num-runs", "--num_runs", type=int, default=1, metavar="N", help="repetitions of every case")
        add(
            "--parallelism",
            type=int,
            default=launch.DEFAULT_PARALLELISM,
            metavar="N",
            help="attempts at once",
        )
        for name in FILES:
            add(f"--{name}", type=Path, metavar="FILE", help=f"write the results as {name.upper()}")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the evalsets one after the other.

        Raises:
            CommandError: it could not run, said in clear words.
            SystemExit: an attempt did not pass, or the run was interrupted.
        """
        try:
            with _quiet() if options["verbosity"] < 2 else contextlib.nullcontext():
                runs = self._run(**options)
        except DevUIError as error:
            said = "\n".join(filter(None, (error.message, error.hint)))
            raise CommandError(said, returncode=COULD_NOT_RUN) from error
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        finally:
            db.close_pools()
        if any(run.status == EvalRun.Status.FAILED for run in runs):
            sys.exit(COULD_NOT_RUN)
        if any(run.passed < run.total for run in runs):
            sys.exit(NOT_ALL_PASSED)

    def _run(self, agent_dir: Path, evalsets: list[Wanted], **options: Any) -> list[EvalRun]:
        agents, app_name = _agent(agent_dir)
        ensure_schema()
        ordered = [_order(agents, app_name, wanted, options) for wanted in evalsets]
        self.stdout.ending = ""
        asyncio.run(_execute(ordered, agents, app_name, Console(self.stdout)))
        runs = [EvalRun.objects.select_related("evalset", "version").get(pk=run.pk) for run in ordered]
        for name, render in FILES.items():
            if path := options[name]:
                _write(path, render(runs))
                self.stdout.write(f"{name}: {path}\n")
        return runs


def _agent(folder: Path) -> tuple[AgentsFolder, str]:
    """Return the agent that a folder is.

    Raises:
        BadInput: the folder is none; agents in it are named.
    """
    agents = open_folder(folder)
    if agents.single is None and is_agent(agents.given, or_package=True):
        agents = AgentsFolder(agents.given, agents.given.parent, agents.given.name)
    if agents.single is None:
        names = ", ".join(agents.names())
        hint = (
            f"It holds agents: name one of {names}." if names else "An agent is a folder with agent.py in it."
        )
        raise BadInput(f"{folder} is not the folder of an agent.", hint=hint)
    return agents, agents.single


def _order(agents: AgentsFolder, app_name: str, wanted: Wanted, options: dict[str, Any]) -> EvalRun:
    evalset = _find(agents, app_name, wanted.name)
    given: Path | None = options["config"]
    beside = configs.beside(library.path_of(agents, evalset), evalset.path)
    config = configs.choose(
        configs.read_file(given) if given else beside, options["metrics"], dict(options["criteria"])
    )
    order = Order(config, wanted.cases, options["num_runs"], options["parallelism"], source="command")
    return launch.order_run(evalset, order)


def _find(agents: AgentsFolder, app_name: str, name: str) -> EvalSet:
    """Return the evalset that is named by a path or by its id.

    Raises:
        NotFound: there is none; those of the agent are named.
    """
    beside = library.files_beside(agents.folder_of(app_name))
    path = Path(name)
    if not path.is_file():
        if name not in beside:
            known = (
                f"Evalsets of {app_name}: {', '.join(beside)}." if beside else f"{app_name} has no evalsets."
            )
            raise NotFound(f"There is no evalset {name!r}: neither a file nor an id.", hint=known)
        path = beside[name]
    return library.adopt(agents, app_name, path)


async def _execute(runs: Sequence[EvalRun], agents: AgentsFolder, app_name: str, console: Console) -> None:
    _load_engine()
    from evals_app.engine.execute import execute_run
    from evals_app.engine.source import FolderAgent

    source = FolderAgent(agents, app_name)
    async with _process(app_name, source.code_version) as runtime_id:
        await db.write(writes.assign, [run.pk for run in runs], runtime_id)
        for run in runs:
            console.begin(run)
            await execute_run(
                run.id, source, asyncio.Event(), runtime_id=runtime_id, progress=console.attempt
            )
            console.end(await db.read(EvalRun.objects.get, pk=run.pk))


def _load_engine() -> None:
    """Import ADK with the garbage collector at rest: what is imported stays, so it would look in vain."""
    gc.disable()
    try:
        from evals_app.engine.attempt import warm_up

        warm_up(())
    finally:
        gc.freeze()
        gc.enable()


@contextlib.asynccontextmanager
async def _process(app_name: str, code_version: str) -> AsyncIterator[str]:
    """Keep a row of this process while it runs evals: if it dies, others can tell that its runs crashed."""
    runtime_id = uuid.uuid4().hex
    await db.write(processes.register, runtime_id, app_name, os.getpid(), code_version)
    beating = asyncio.create_task(_beat(runtime_id))
    try:
        yield runtime_id
    finally:
        beating.cancel()
        await db.write(processes.stop, runtime_id)


async def _beat(runtime_id: str) -> None:
    while True:
        await asyncio.sleep(processes.HEARTBEAT_S)
        await db.write(processes.beat, runtime_id)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error.strerror}.", hint="The results are in the store."
        ) from error


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _criterion(text: str) -> tuple[str, float]:
    name, _, threshold = text.partition("=")
    try:
        return name.strip(), float(threshold)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no NAME=THRESHOLD, such as response_match_score=0.7") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave the terminal to the results: what a person must know of the agent's log stands in them."""
    adk, root = logging.getLogger("google_adk"), logging.getLogger()
    before = adk.propagate, [handler.level for handler in root.handlers]
    adk.propagate = False
    for handler in root.handlers:
        handler.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[EXPERIMENTAL\]")
            yield
    finally:
        adk.propagate = before[0]
        for handler, level in zip(root.handlers, before[1], strict=False):
            handler.setLevel(level)
