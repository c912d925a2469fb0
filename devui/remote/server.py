"""One remote server: polls its status, describes its agents, and executes their runs in this process."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from django.db.models import Max

from devui.remote import dialects
from devui.remote.address import RemoteAddress
from devui.remote.adk_paths import AdkPaths
from devui.remote.agent_cards import fetch_description
from devui.remote.http_client import NotReached, RemoteHttpClient, RemoteResponse
from devui.remote.responses import parse_app_names
from devui.remote.runs import RemoteRuns
from devui.remote.session_copies import SessionCopies
from devui.supervisor import process_cleanup
from sessions_app.agent_processes import processes
from sessions_app.agents import cards, remotes
from sessions_app.agents.remotes import Remote
from sessions_app.delivery.deliveries import deliveries
from sessions_app.runs import lifecycle
from sessions_app.runs.background import BackgroundTasks, repeat
from sessions_app.runs.run_delivery import RunDelivery
from sessions_app.runs.runtime_client import RuntimeProvider
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.text_input import parse_json

CHECK_S = 15.0
"""Seconds between two checks of a server that answers."""

RETRY_S = 3.0
"""Seconds between two checks of a server that does not answer."""

CHECK_TIMEOUT_S = 10.0
"""Seconds that a server may take to list its apps: some load their agents first."""

USERS_FOLLOWED = 50
"""Most users of an app whose sessions are copied when its server is found."""

ADK_FRONT_END_USER = "user"
"""The user of ADK's front end, whose sessions are copied even if no user is known here."""

log = logging.getLogger(__name__)


class RemoteServer:
    """A remote server, from the start of the web process to its end."""

    def __init__(self, address: RemoteAddress) -> None:
        self.runtime_id = uuid.uuid4().hex
        self.http = RemoteHttpClient(address)
        self.copies = SessionCopies(self.http)
        self.runs = RemoteRuns(self.runtime_id, self.http, self.copies)
        self.paths = AdkPaths(self.http, self.copies, self.runs)
        self.remote = Remote(address.name, address.url)
        self._tasks = BackgroundTasks()
        self._synchronizing: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()
        remotes.register(self.remote)

    async def start(self, runtimes: RuntimeProvider) -> None:
        """Register the owner of its runs, and start the checks. `runtimes` has this server."""
        await units_of_work.write(
            processes.register, self.runtime_id, f"@{self.remote.name}", os.getpid(), ""
        )
        self._tasks.start(self._watch_server(runtimes))
        subject = f"The heartbeat of remote server {self.remote.name}"
        self._tasks.start(repeat(self._write_heartbeat, processes.HEARTBEAT_S, subject))

    async def close(self, why: str) -> None:
        """End its runs, and stop the checks."""
        await self._tasks.cancel()
        await self.runs.close(why)
        await self.copies.close()
        await self.http.close()
        await process_cleanup.record_stop(self.runtime_id)

    async def check(self) -> Remote:
        """Request the server's version and apps, and return what is known of it then."""
        async with self._checking:
            before = self.remote
            try:
                apps, version = await self._fetch_identity()
                dialect = self.copies.dialect
                self.remote = replace(
                    before,
                    apps=apps,
                    language=dialect.language,
                    language_label=dialect.label,
                    version=version,
                    has_live_runs=dialect.has_live_runs,
                    problem="",
                    asked_at=time.time(),
                )
            except DevUIError as error:
                problem = f"{error.message} {error.hint}".strip()
                self.remote = replace(before, problem=problem, asked_at=time.time())
            remotes.register(self.remote)
            self._log_change(before)
        if not self.remote.problem and (before.problem or before.apps != self.remote.apps):
            self._synchronizing = self._tasks.start(self._synchronize_apps())
        return self.remote

    async def wait_until_synchronized(self) -> None:
        """Wait until the apps of the last check are described and their sessions are copied."""
        if self._synchronizing is not None:
            await asyncio.wait([self._synchronizing])

    async def take_run(self, run_id: str) -> None:
        """Execute a queued run. A run that has ended, or that another process has started, is left alone."""
        if not await units_of_work.write(lifecycle.assign, run_id, self.runtime_id):
            return
        run = await units_of_work.read(_read_run, run_id)
        if run is not None and run.status == Run.Status.QUEUED and run_id not in self.runs.active:
            self.runs.start(run)

    async def describe(self, app_name: str) -> None:
        """Request the description of an app, and write its card.

        Raises:
            NotReached: the server does not answer.
        """
        description, error = await fetch_description(
            self.http, remotes.upstream_app_name(app_name), self.remote, self.copies.dialect
        )
        if error:
            await units_of_work.write(cards.save_failure, app_name, "", error)
        else:
            await units_of_work.write(cards.save_loaded, app_name, "", description)

    async def _fetch_identity(self) -> tuple[tuple[str, ...], str]:
        """Return the apps and the version of the server, and set its dialect."""
        answer = await self._list_apps()
        try:
            apps = parse_app_names(parse_json(answer.body))
        except (ValueError, RecursionError) as error:
            raise self.copies.malformed_error(ValueError("/list-apps is not a list of names")) from error
        version = await self._read_version()
        # The first call loads plug-ins.
        self.copies.dialect = await asyncio.to_thread(dialects.detect_dialect, version, answer.headers)
        version_text = version.get("version") if isinstance(version, dict) else ""
        return apps, version_text if isinstance(version_text, str) else ""

    async def _list_apps(self) -> RemoteResponse:
        answer = await self.http.ask("GET", "/list-apps", seconds=CHECK_TIMEOUT_S)
        if answer.status == HTTPStatus.NOT_FOUND:
            roots = {dialect.root_path for dialect in await asyncio.to_thread(dialects.all_dialects)}
            for root in sorted(root for root in roots if root and not self.http.base.endswith(root)):
                below = await self.http.ask("GET", f"{root}/list-apps", seconds=CHECK_TIMEOUT_S)
                if below.is_success:
                    self.http.base = self.http.url + root
                    return below
        if answer.status in {401, 403}:
            raise BadInput(
                f"{self.http.url} answered {answer.status}: it requires a login.",
                hint="Use `--runtime NAME=http://USER:PASSWORD@HOST`, or allow this machine on the server.",
            )
        if not answer.is_success:
            raise BadInput(
                f"{self.http.url} is not an ADK server: /list-apps answered {answer.status}.",
                hint="Use the address that /list-apps is relative to.",
            )
        return answer

    async def _read_version(self) -> Any:
        with suppress(NotReached, ValueError, RecursionError):
            answer = await self.http.ask("GET", "/version", seconds=CHECK_TIMEOUT_S)
            if answer.is_success:
                return parse_json(answer.body)
        return None

    def _log_change(self, before: Remote) -> None:
        name, now = self.remote.name, self.remote
        if now.problem and now.problem != before.problem:
            log.warning("Remote server %s: %s", name, now.problem)
        elif not now.problem and (before.problem or not before.asked_at):
            log.info("Remote server %s answers: %s, %d apps.", name, now.kind, len(now.apps))

    async def _synchronize_apps(self) -> None:
        """Describe the apps of a server that is new or available again, and update the copies of its sessions."""
        for app_name in self.remote.app_names:
            try:
                await self.describe(app_name)
                for user_id in await units_of_work.read(_followed_users, app_name):
                    self.copies.follow(app_name, await self.copies.sessions(app_name, user_id))
                    await self.copies.wait_until_followed()
            except NotReached:
                return
            except DevUIError as error:
                log.info("App %r: %s", app_name, error.message)

    async def _watch_server(self, runtimes: RuntimeProvider) -> None:
        while True:
            try:
                if not (await self.check()).problem:
                    await self._deliver_left_behind(runtimes)
            except Exception:
                log.exception("The check of remote server %s failed; retrying.", self.remote.name)
            await asyncio.sleep(RETRY_S if self.remote.problem else CHECK_S)

    async def _deliver_left_behind(self, runtimes: RuntimeProvider) -> None:
        """Deliver the runs that an ended web process left queued for this server's apps."""
        for run_id, app_name in await units_of_work.read(lifecycle.abandoned_runs):
            if remotes.find_remote(app_name) == self.remote:
                deliveries.start(RunDelivery(app_name, run_id, runtimes))

    async def _write_heartbeat(self) -> None:
        """Write the heartbeat of its runs' owner, and cancel the runs that other processes request to cancel."""
        await units_of_work.write(processes.record_heartbeat, self.runtime_id)
        for run_id in await units_of_work.read(lifecycle.cancel_requests, self.runtime_id):
            await self.runs.cancel(run_id)


def _read_run(run_id: str) -> Run | None:
    return Run.objects.select_related("session").filter(pk=run_id).first()


def _followed_users(app_name: str) -> list[str]:
    """Return the users whose sessions are copied: those of the newest sessions here, and ADK's front end's."""
    sessions = AgentSession.objects.filter(realm="", app_name=app_name)
    newest_first = sessions.values("user_id").annotate(newest=Max("updated_at")).order_by("-newest")
    return [
        ADK_FRONT_END_USER,
        *newest_first.exclude(user_id=ADK_FRONT_END_USER).values_list("user_id", flat=True)[:USERS_FOLLOWED],
    ]
