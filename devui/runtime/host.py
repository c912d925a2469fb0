"""The runtime of one app: its agent, its services, ADK's server, and the runs and calls of its tools."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import google.adk.version
from fastapi import FastAPI
from google.adk import cli
from google.adk.apps.app import App
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager

from devui.runtime import generation_config, run_config, services
from devui.runtime._adk import ManagedServer, Node, enforce_yaml_denylist
from devui.runtime.agent_description import describe
from devui.runtime.agent_loading import AgentCode, describe_failure
from devui.runtime.code_locations import CodeLocator
from devui.runtime.config import RuntimeConfig, RuntimeOptions
from devui.runtime.eval_runs import EvalRuns
from devui.runtime.guarded_reads import call_with_timeout
from devui.runtime.pause_plugin import CallPausePlugin, OutcomePausePlugin
from devui.runtime.playground import PlaygroundRuns
from devui.runtime.resume_plugin import PastFailuresPlugin
from devui.runtime.run_pauser import RunPauser
from devui.runtime.run_queue import ActiveRun
from devui.runtime.runner import ManagedRunner
from devui.runtime.runs import LocalRuns
from devui.runtime.tool_calls import ToolCalls
from evals_app.execution import process_facts
from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, MirroredSessionService, Recorder
from sessions_app.adk.spans import SpanKeeper
from sessions_app.agents import cards
from sessions_app.agents.revisions import git_revision
from sessions_app.console.pause_points import PausePoints
from sessions_app.runs.agent_exit import AgentExited
from sessions_app.runs.background import BackgroundTasks
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.database.gc_tuning import collect_less_often
from sessions_app.store.errors import BadInput, NotFound, RuntimeUnavailable
from sessions_app.store.models import Run
from sessions_app.store.realms import refuse_read_only
from sessions_app.store.redaction import without_password

FRONT_END = Path(cli.__file__).parent / "browser"

DESCRIBE_S = 10.0
"""Longest time in seconds that the description of an agent may delay its runs."""

GIT_S = 2.0
"""Longest time in seconds to ask git for the commit, which may have to read a large folder."""

CARD_S = 5.0
"""Longest time in seconds that the agent's runs wait for its card to be stored."""

log = logging.getLogger(__name__)


class RuntimeHost:
    """The agent of this process and all that runs it. `failure` is the exception if the agent could not be loaded."""

    def __init__(self, config: RuntimeConfig) -> None:
        enforce_yaml_denylist()
        _omit_messages_from_spans(config.options)
        self.config = config
        self.source = AgentCode(config.agents_dir, config.app_name)
        self.source.load_services()
        self.runs = LocalRuns(
            config.runtime_id,
            on_left=self._check_drained,
            truth=services.session_service(config.options, self.source.folder.root),
            service_uri=without_password(config.options.session_service_uri),
        )
        self.evals = EvalRuns(
            self.source,
            config.runtime_id,
            on_left=self._check_drained,
            continue_elsewhere=config.options.continue_evals,
        )
        self.playground = PlaygroundRuns(config.runtime_id, on_left=self._check_drained)
        self.tools = ToolCalls(on_left=self._check_drained)
        self.server = self._make_server()
        self.state = "loading"
        self.failure: Exception | None = None
        self._failed_at: TracebackType | None = None
        self.error: dict[str, Any] = {}
        self.draining = False
        self.drained = asyncio.Event()
        self._tasks = BackgroundTasks()

    def make_app(self) -> FastAPI:
        """Return ADK's application; it loads the agent when it starts."""
        return self.server.get_fast_api_app(
            lifespan=self._load_for_lifespan,
            otel_to_cloud=self.config.options.otel_to_cloud,
            register_processors=lambda provider: provider.add_span_processor(SpanKeeper()),
            bind_host="127.0.0.1",
            web_assets_dir=str(FRONT_END) if FRONT_END.is_dir() else None,  # else ADK has no `build_graph`
        )

    @asynccontextmanager
    async def _load_for_lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        await self.load()
        gc.freeze()  # loaded objects stay; scanning them again would slow down every run
        collect_less_often()
        self._tasks.start(self._bring_sessions())
        yield
        await self.cancel_all()
        if isinstance(self.runs.service, MirroredSessionService):
            await self.runs.service.close()

    @property
    def active_runs(self) -> int:
        """Number of runs, eval runs, attempts, playground runs and tool calls that have not ended."""
        return len(self.runs.active) + len(self.evals) + len(self.playground) + len(self.tools)

    def health(self) -> dict[str, Any]:
        """Return the status for the supervisor and the home page."""
        return {
            "app": self.config.app_name,
            "pid": os.getpid(),
            "runtime_id": self.config.runtime_id,
            "code_version": self.source.code_version,
            "is_mixed": self.source.is_mixed,
            "state": self.state,
            "active_runs": self.active_runs,
            **({"error": self.error} if self.error else {}),
        }

    async def load(self) -> None:
        """Load the agent and write its card. A failure is recorded, not raised."""
        name = self.config.app_name
        process_facts.watch_environment()
        try:
            root, app = self.source.load_first()
            await self.server.get_runner_async(name)
        except (Exception, SystemExit) as error:
            await self._note_failure(error)
        else:
            self.state = "ready"
            description = await self._describe_root(root, app)
            self.runs.git_revision = description.get("code", {}).get("git", "")
            await self._write_card(cards.save_loaded, description)
        self.runs.code_version = self.source.code_version

    async def _note_failure(self, error: Exception | SystemExit) -> None:
        """Record why the agent could not be loaded, for its page and for callers that start a run."""
        name = self.config.app_name
        self.state, self.failure = "failed", _as_exception(error)
        self._failed_at = self.failure.__traceback__
        self.error = describe_failure(error, self.source.folder.root)
        log.warning("Agent %r could not be loaded: %s", name, self.error["message"])
        await self._write_card(cards.save_failure, self.error)

    async def _write_card(
        self, write: Callable[[str, str, dict[str, Any]], object], content: dict[str, Any]
    ) -> None:
        """Write the card of the agent, for its page. Runs wait for the store for at most `CARD_S`."""
        writing = retry.write(write, self.config.app_name, self.source.code_version, content)
        await asyncio.wait([self._tasks.start(writing)], timeout=CARD_S)

    async def _describe_root(self, root: Node, app: App | None) -> dict[str, Any]:
        """Return the description of the agent. An agent that cannot be described can still be run."""
        name, folder = self.config.app_name, self.source.folder
        description: dict[str, Any] = {"name": name, "type": type(root).__name__, "description": ""}
        try:
            description |= {
                "run_config": run_config.schema(),
                "generation_config": generation_config.schema(),
                "code": await self._read_code_version(),
            }
            locator = CodeLocator(folder.root, folder.app_folder(name))
            return description | await call_with_timeout(
                lambda: describe(root, app, name, locator), DESCRIBE_S
            )
        except Exception as error:
            log.exception("Agent %r cannot be described.", name)
            too_slow = f"reading it took longer than {DESCRIBE_S:.0f} s."
            why = too_slow if isinstance(error, TimeoutError) else str(error)
            return {**description, "problem": f"This agent can be run, but its description failed: {why}"}

    async def _read_code_version(self) -> dict[str, str]:
        """Return the git commit of the agent's folder, and the version of ADK."""
        folder, revision = self.source.folder.app_folder(self.config.app_name), ""
        with suppress(TimeoutError):
            revision = await asyncio.wait_for(git_revision(folder), GIT_S)
        return {"git": revision, "adk": google.adk.version.__version__}

    def drain(self) -> None:
        """Accept no more runs, and set `drained` when the last one has ended."""
        self.draining = True
        self._check_drained()

    async def cancel_all(self) -> None:
        """Cancel every run, eval run, playground run and tool call."""
        await self.runs.cancel_all("The process that ran it was stopped, or its server has ended.")
        await self.evals.cancel_all()
        await self.playground.cancel_all()
        await self.tools.cancel_all()

    async def recall_memory(self, user_id: str, query: str) -> list[dict[str, Any]]:
        """Return the memory entries that a query of an agent would get, as JSON.

        Raises:
            BadInput: the memory service fails or is not a memory service.
        """
        service = self.server.memory_service
        try:
            response = await service.search_memory(
                app_name=self.config.app_name, user_id=user_id, query=query
            )
            return [
                entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in response.memories
            ]
        except Exception as error:
            raise BadInput(
                f"The memory service {type(service).__name__} fails: {type(error).__name__}: {error}",
                hint="The server's log may say more.",
            ) from error

    async def _bring_sessions(self) -> None:
        """Copy the list of sessions that another service owns, for the pages."""
        if isinstance(self.runs.service, MirroredSessionService):
            try:
                await self.runs.service.list_sessions(app_name=self.config.app_name)
            except Exception as error:
                log.warning("The sessions in %s could not be listed: %r", self.runs.service_uri, error)

    async def start_run(self, run_id: str) -> None:
        """Execute a queued run in the background. A run that has started already is left alone.

        Raises:
            NotFound: there is no such run.
            RuntimeUnavailable: the process is about to end.
        """
        if run_id in self.runs.active:
            return
        if self.draining:
            raise RuntimeUnavailable(
                f"The process of {self.config.app_name!r} is ending.",
                hint="Send it again: a new process takes it.",
            )
        run = await units_of_work.read(_read_run, run_id)
        if run.status == Run.Status.QUEUED and run_id not in self.runs.active:
            active = self.runs.add_run(run)
            self._tasks.start(self._carry_out(active, json.loads(run.request)))

    async def _carry_out(self, active: ActiveRun, request: dict[str, Any]) -> None:
        """Execute a run; a cancelled task ends it as cancelled."""
        try:
            await self._run_agent(active, request)
        except asyncio.CancelledError:
            await self.runs.finish(active, Run.Status.CANCELLED)

    async def _run_agent(self, active: ActiveRun, request: dict[str, Any]) -> None:
        """Run the agent. Errors before the runner takes over are recorded here; the runner records its own."""
        try:
            if self.failure is not None:
                raise self.failure.with_traceback(self._failed_at)
            refuse_read_only(active.session)
            await self.runs.check_storage_location(active.session)
            runner = await self._find_runner(active.session.realm)
            if points := PausePoints.read_request(request):
                expire = partial(self.runs.expire, active)
                runner = self._add_pause_plugins(runner, RunPauser(active.id, points, expire))
            await runner.run_queued(
                active, request, run_config.build_run_config(request, self.config.options)
            )
        except Exception as error:
            log.info("Run %s failed: %s: %s", active.id, type(error).__name__, error)
            if not active.ended.is_set():
                await self.runs.fail_in_turn(active, error)

    def _make_server(self) -> ManagedServer:
        options, root = self.config.options, self.source.folder.root
        return ManagedServer(
            make_runner=self._make_runner,
            agent_loader=self.source.loader,
            session_service=self.runs.service,
            artifact_service=services.artifact_service(options, root),
            memory_service=services.memory_service(options, root),
            credential_service=services.credential_service(),
            eval_sets_manager=LocalEvalSetsManager(agents_dir=str(root)),
            eval_set_results_manager=LocalEvalSetResultsManager(agents_dir=str(root)),
            agents_dir=str(root),
            extra_plugins=options.extra_plugins,
            url_prefix=options.url_prefix or None,
            default_llm_model=options.default_llm_model or None,
            max_llm_calls=options.max_llm_calls,
        )

    def _make_runner(self, app: App, app_name: str) -> ManagedRunner:
        """Return the runner of an app with the recorder as its first plugin, and the plugin that lets it resume."""
        plugins = list(app.plugins)
        if app.resumability_config is not None and app.resumability_config.is_resumable:
            plugins.insert(0, PastFailuresPlugin())
        if not any(isinstance(plugin, Recorder) for plugin in plugins):
            plugins.insert(0, Recorder())
        app = app.model_copy(update={"plugins": plugins})
        return ManagedRunner(
            runs=self.runs,
            app=app,
            app_name=app_name,
            artifact_service=self.server.artifact_service,
            session_service=self.server.session_service,
            memory_service=self.server.memory_service,
            credential_service=self.server.credential_service,
        )

    async def ready_runner(self, realm: str) -> ManagedRunner:
        """Return the app's runner for a realm.

        Raises:
            RuntimeUnavailable: the agent could not be loaded.
        """
        if self.failure is not None:
            raise RuntimeUnavailable(
                f"Agent {self.config.app_name!r} could not be loaded: {self.error['message']}",
                hint="The agent's page shows where it failed.",
            )
        return await self._find_runner(realm)

    async def _find_runner(self, realm: str) -> ManagedRunner:
        """Return the app's runner; for a fork with its own realm, a runner whose services see only that realm."""
        runner = cast(ManagedRunner, await self.server.get_runner_async(self.config.app_name))
        if not realm:
            return runner
        return ManagedRunner(
            runs=self.runs,
            app=runner.app,
            app_name=self.config.app_name,
            artifact_service=DjangoArtifactService(realm),
            session_service=self.runs.find_session_service(realm),
            memory_service=DjangoMemoryService(realm),
            credential_service=self.server.credential_service,
        )

    def _add_pause_plugins(self, runner: ManagedRunner, pauser: RunPauser) -> ManagedRunner:
        """Return a copy of a runner with a plugin that pauses before all others, and one that does after them."""
        plugins = [CallPausePlugin(pauser), *runner.app.plugins, OutcomePausePlugin(pauser)]
        return ManagedRunner(
            runs=self.runs,
            app=runner.app.model_copy(update={"plugins": plugins}),
            app_name=self.config.app_name,
            artifact_service=runner.artifact_service,
            session_service=runner.session_service,
            memory_service=runner.memory_service,
            credential_service=runner.credential_service,
        )

    def _check_drained(self) -> None:
        if self.draining and not self.active_runs:
            self.drained.set()


def _omit_messages_from_spans(options: RuntimeOptions) -> None:
    """Keep ADK from copying each request into a span: model calls store it. An exporter of the user still gets it."""
    if not options.otel_to_cloud and not any(name.startswith("OTEL_EXPORTER_OTLP") for name in os.environ):
        os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")


def _read_run(run_id: str) -> Run:
    run = Run.objects.select_related("session").filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"No run {run_id!r}.", hint="It was deleted with its session.")
    return run


def _as_exception(error: Exception | SystemExit) -> Exception:
    return AgentExited.of(error, "agent's module") if isinstance(error, SystemExit) else error
