"""Creation of runs for an agent's folder by name: shared by the command line and test suites. Needs no server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evals_app.cases.case_tags import tags_by_index
from evals_app.files import library
from evals_app.files.tags import UNTAGGED
from evals_app.metrics import config as configs
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import run_orders
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.run_orders import DEFAULT_PARALLELISM, RunOrder
from evals_app.runs.shards import Shard
from evals_app.runs.writes import runs
from sessions_app.agents.folder import AGENT_HINT, AgentsFolder, is_agent, open_folder
from sessions_app.prices import find_prices, price_folders
from sessions_app.store.errors import BadInput, NotFound


@dataclass(frozen=True)
class EvalsetRequest:
    """An evalset to run, and the options of the run.

    Attributes:
        evalset: a file, or the id of one beside the agent.
        cases: ids; empty: all.
        metrics: names; None: those of the configuration.
        criteria: metric → threshold, `metric.option` → value.
        config: a `test_config.json`; None: the one beside the evalset, else ADK's defaults.
        settings: the configuration itself instead of a file.
        policy: the replay policy as JSON (`replay.policy`); its run may be "last", or a prefix of an id.
    """

    evalset: str
    cases: Sequence[str] = ()
    metrics: Sequence[str] | None = None
    criteria: Mapping[str, float | str] = field(default_factory=dict)
    config: Path | None = None
    settings: Mapping[str, Any] | None = None
    num_runs: int = 1
    parallelism: int = DEFAULT_PARALLELISM
    limits: EvalRunLimits = EvalRunLimits()
    policy: Mapping[str, Any] = field(default_factory=dict)
    source: str = "command"
    shard: Shard | None = None


def agent_at(folder: Path) -> tuple[AgentsFolder, str]:
    """Return the agents folder and the name of the agent in a folder.

    Raises:
        BadInput: the folder is not an agent's; the agents in it are named.
    """
    agents = open_folder(folder)
    if agents.single is None and is_agent(agents.path, or_package=True):
        agents = AgentsFolder(agents.path, agents.path.parent, agents.path.name)
    if agents.single is None:
        names = ", ".join(agents.names())
        hint = f"It holds agents: name one of {names}." if names else AGENT_HINT
        raise BadInput(f"{folder} is not the folder of an agent.", hint=hint)
    return agents, agents.single


def find_agent(folder: Path, app_name: str) -> AgentsFolder:
    """Return the folder of an app as `agent_at` opens it, given this folder or one of several agents.

    Raises:
        BadInput: the folder is neither.
    """
    agents = open_folder(folder)
    is_among = agents.single is None and app_name in agents.names()
    agents, found_name = agent_at(agents.app_folder(app_name) if is_among else folder)
    if found_name != app_name:
        raise BadInput(
            f"{folder} is the folder of {found_name!r}, not of {app_name!r}.",
            hint=f"Name the folder of {app_name}, or the folder that contains it.",
        )
    return agents


def order_from_folder(agents: AgentsFolder, app_name: str, request: EvalsetRequest) -> EvalRun:
    """Create the pending run of a request.

    Raises:
        NotFound: the evalset or a case does not exist.
        BadFile: the evalset or the configuration is invalid.
        BadInput: a number or a name is invalid.
    """
    return runs.create_run(prepare_from_folder(agents, app_name, request))


def prepare_from_folder(agents: AgentsFolder, app_name: str, request: EvalsetRequest) -> runs.NewEvalRun:
    """Return the run that a request describes; it raises as `order_from_folder`."""
    evalset = find_evalset(agents, app_name, request.evalset)
    config = find_config(request, library.evalset_path(agents, evalset), evalset.path)
    return run_orders.prepare_run(
        evalset,
        RunOrder(
            config,
            request.cases,
            request.num_runs,
            request.parallelism,
            limits=request.limits,
            policy=request.policy,
            prices=find_prices([agents.path, agents.root, *price_folders()]),
            source=request.source,
            shard=request.shard,
        ),
    )


def deal_cases(
    agents: AgentsFolder, app_name: str, requests: Sequence[EvalsetRequest], shard: Shard
) -> list[EvalsetRequest]:
    """Return the requests for a part of the cases of all evalsets. Evalsets without a case in it are left out.

    Raises:
        NotFound: an evalset or a case does not exist.
    """
    chosen_requests = []
    for request in requests:
        cases = run_orders.choose_cases(find_evalset(agents, app_name, request.evalset), request.cases)
        if shard.choose(cases):
            chosen_requests.append(replace(request, shard=shard))
        shard = shard.after(cases)
    return chosen_requests


def choose_tagged_cases(
    agents: AgentsFolder, app_name: str, requests: Sequence[EvalsetRequest], tags: Sequence[str]
) -> list[EvalsetRequest]:
    """Return the requests for the cases that have one of the tags. Cases without tags have the tag `untagged`.

    Evalsets without such a case are left out.

    Raises:
        BadInput: no tag is given.
        NotFound: an evalset or a case does not exist, or no case has a tag.
    """
    if not tags:
        raise BadInput("--tags names no tag.", hint="Give tags separated by commas, or leave it out.")
    chosen_requests: list[EvalsetRequest] = []
    existing_tags: set[str] = set()
    for request in requests:
        evalset = find_evalset(agents, app_name, request.evalset)
        tags_of_version = tags_by_index(library.current_version(evalset))
        cases = [
            (case_id, set(tags_of_version[index]))
            for index, case_id in run_orders.choose_cases(evalset, request.cases)
        ]
        existing_tags.update(*(case_tags for _, case_tags in cases))
        if tagged_ids := [case_id for case_id, case_tags in cases if not case_tags.isdisjoint(tags)]:
            chosen_requests.append(replace(request, cases=tagged_ids))
    if unknown := [tag for tag in tags if tag not in existing_tags]:
        listed = ", ".join(sorted(existing_tags - {UNTAGGED}))
        raise NotFound(
            f"No case has the tag {unknown[0]!r}.",
            hint=f"Tags of the cases: {listed}." if listed else "The cases have no tags.",
        )
    return chosen_requests


def find_evalset(agents: AgentsFolder, app_name: str, name: str) -> EvalSet:
    """Return the evalset with a path or an id.

    Raises:
        NotFound: no such evalset; those of the agent are named.
        BadFile: its file is invalid.
    """
    files = library.find_files(agents.app_folder(app_name))
    path = Path(name)
    if not os.path.isfile(name):  # also for a name that is too long for a file
        if os.path.islink(name) and not os.path.exists(name):
            raise NotFound(
                f"The evalset {name!r} is a link to {os.readlink(path)!r}, which does not exist.",
                hint="Restore that file, or name another evalset.",
            )
        if name not in files:
            hint = f"Evalsets of {app_name}: {', '.join(files)}." if files else f"{app_name} has no evalsets."
            raise NotFound(f"There is no evalset {name!r}: neither a file nor an id.", hint=hint)
        path = files[name]
    return library.register_file(agents, app_name, path)


def find_config(request: EvalsetRequest, evalset_file: Path, shown_as: str = "") -> configs.RunConfig:
    """Return the configuration of a request for an evalset file.

    Raises:
        NotFound: its file does not exist.
        BadFile: its file is invalid.
        BadInput: a metric, threshold or option is.
    """
    if request.settings is not None:
        config = configs.parse_config(
            json.dumps(dict(request.settings)), "config.json", "the configuration given"
        )
    elif request.config is not None:
        config = configs.read_config_file(request.config)
    else:
        config = configs.config_beside(evalset_file, shown_as)
    return configs.choose_metrics(config, request.metrics, dict(request.criteria))
