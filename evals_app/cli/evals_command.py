"""Base of the commands that execute eval runs: their exit codes, their child process, and `--confirm`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from evals_app.analysis.ci_gate import COULD_NOT_RUN, Gate
from evals_app.cli.terminal import Console
from evals_app.cli.terminal_text import Output
from evals_app.execution.child_processes import RunChildren, StoppedBySignal
from evals_app.execution.local_runner import cancel_runs, execute_runs, quiet_logging, run_in_loop
from evals_app.models import EvalRun
from evals_app.runs import rerun
from sessions_app.agents.folder import AgentsFolder
from sessions_app.presentation import visible_text
from sessions_app.store.database import db_errors, units_of_work
from sessions_app.store.errors import DevUIError

ExecuteRuns = Callable[[Sequence[EvalRun]], list[EvalRun]]
"""Executes pending runs one after the other and returns them as they ended."""

INTERRUPTED = 130

SIGNAL_EXIT_BASE = 128
"""Exit code of a shell for a process that a signal ended, minus the signal's number."""


class EvalsCommand(BaseCommand):
    """A command that may execute runs of an agent. It exits 2 with one line if it cannot do what it was told."""

    requires_system_checks = []
    _is_program = False

    def run_from_argv(self, argv: list[str]) -> None:
        """Run as the command of this process, not by `call_command`."""
        self._is_program = True
        super().run_from_argv(argv)

    def run_command(self, options: dict[str, Any]) -> int:
        """Do the command's work; return its exit code."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command.

        Raises:
            CommandError: the runs could not run.
            SystemExit: the exit code is not 0, or the runs were interrupted.
        """
        try:
            with (
                quiet_logging() if options["verbosity"] < 2 else contextlib.nullcontext(),
                db_errors.translate_db_errors(),
            ):
                code = self.run_command(options)
        except DevUIError as error:
            message = "\n".join(filter(None, (error.message, error.hint)))
            raise CommandError(visible_text.escape_text(message), returncode=COULD_NOT_RUN) from error
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except StoppedBySignal as stopped:
            sys.exit(SIGNAL_EXIT_BASE + stopped.number)
        except CommandError:
            raise
        except Exception as error:  # exit code 1 would say that something became worse
            reason = next(iter(str(error).splitlines()), "")
            raise CommandError(
                f"DevUI failed with {type(error).__name__}: {reason}\nThe store may have rows that DevUI did not write."
                " To see where it failed, add --traceback.",
                returncode=COULD_NOT_RUN,
            ) from error
        finally:
            units_of_work.close_pools()
        if code:
            sys.exit(code)

    @property
    def has_child(self) -> bool:
        """Tell whether a child process executes the runs: only if this process runs nothing but the command."""
        return self._is_program and hasattr(os, "fork")

    def open_console(self) -> Console:
        """Return a console for results. With a child it writes to a duplicate stream, which has no limit of output."""
        self.stdout.ending = ""
        output: Output = self.stdout
        if self.has_child:
            output = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding)
        return Console(output)

    @contextlib.contextmanager
    def open_executor(self, agents: AgentsFolder, app_name: str, console: Console) -> Iterator[ExecuteRuns]:
        """Open what executes pending runs of an agent. Its child process starts at once, and imports ADK meanwhile."""
        if self.has_child:
            with RunChildren(agents, app_name, console, console.write_death) as children:
                yield partial(_execute_or_cancel, children.execute)
        else:
            yield partial(
                _execute_or_cancel, lambda runs: run_in_loop(execute_runs(runs, agents, app_name, console))
            )


def _execute_or_cancel(execute: ExecuteRuns, ordered: Sequence[EvalRun]) -> list[EvalRun]:
    """Execute pending runs one after the other; return them as they ended. Those that are stopped are cancelled.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped the runs, in this process.
        StoppedBySignal: SIGINT or SIGTERM stopped the runs, in a child process.
    """
    try:
        return execute(ordered)
    except (KeyboardInterrupt, StoppedBySignal):
        cancel_runs(ordered)
        raise


def order_confirmations(
    runs: Sequence[EvalRun], gate: Gate, repetitions: int, agents: AgentsFolder
) -> list[EvalRun]:
    """Order repetitions of the cases that look worse than their baseline."""
    suspicious = [(run, cases) for run in runs if (cases := gate.cases_to_confirm(run))]
    return [rerun.confirm(run, cases, repetitions, agents) for run, cases in suspicious]
