"""Pages of optimisations: the form and its refusals, one from its start to its end, and one without its process."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest

from evals_app.execution import optimisers
from evals_app.execution.agent_source import FolderAgent
from evals_app.models import EvalRun, Optimisation
from evals_app.optimisation import steps
from evals_app.optimisation.settings import SIMPLE, OptimiserSettings
from evals_app.optimisation.steps import OptimisedAgent
from evals_app.runs import folder_orders
from evals_app.runs.folder_orders import EvalsetRequest
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import AgentsFolder, open_folder
from sessions_app.runs import job_queue, runtime_client
from sessions_app.store.database import units_of_work
from tests.evals.conftest import Process
from tests.evals.run_evals_command import EXAMPLE_AGENTS
from tests.evals.web_pages import get_page
from tests.pages.html import parse

AGENTS = EXAMPLE_AGENTS.parent / "optimise"
PAGE = "/evals/thermo/units/optimise/"
PARTS = {"part-0": "validation", "part-1": "training", "part-5": "validation", "part-6": "training"}
FORM = {
    "action": "run",
    "optimiser": "simple",
    "model": "offline-prompt-writer",
    "proposals": "2",
    "batch_size": "5",
    "repetitions": "5",
    "seed": "1",
    "parallelism": "4",
    "metric": "response_match_score",
    "threshold:response_match_score": "1",
    **{f"part-{number}": "unused" for number in range(8)},
    **PARTS,
}


class OptimiserProcess(Process):
    """A runtime process that runs optimisers, too."""

    async def call(self, method, path, body=None):
        if path == "/devui/optimisations/inspect":
            agent, _ = self.source.load()
            settings = OptimiserSettings.from_json(body["settings"])
            return asdict(optimisers.inspect_agent(agent, settings, self.source.code_version))
        if path == "/devui/optimisations/next":
            return asdict(await optimisers.find_next_step(body["optimisation"]))
        return await super().call(method, path, body)


@pytest.fixture
def agents(web, settings) -> AgentsFolder:
    """The folder of the example, as the server's."""
    settings.DEVUI_AGENTS_DIR = str(AGENTS)
    return open_folder(AGENTS)


@pytest.fixture
def optimiser_process(agents, store):
    """A server whose process runs the example."""
    process = OptimiserProcess(FolderAgent(agents, "thermo"))
    runtime_client.register(process)
    processes.register("server", processes.SERVER_APP, 1, "")
    processes.set_own_id("server")
    yield process
    processes.set_own_id(None)


async def wait_for_end() -> Optimisation:
    """Return the only optimisation when it has ended."""
    while (optimisation := await units_of_work.read(Optimisation.objects.get)).active:  # noqa: ASYNC110 - only the store knows
        await asyncio.sleep(0.05)
    return optimisation


async def post_form(web, **changes):
    """Submit the form as the page shows it, with changes."""
    seen = (await get_page(web, PAGE)).one(name="seen").attrs["value"]
    return await web.post(PAGE, FORM | {"seen": seen} | changes)


async def test_optimisation_of_the_page_ends_with_its_verdict(web, optimiser_process):
    response = await post_form(web)
    assert response.status_code == 302, response.content.decode()[:3000]
    optimisation = await wait_for_end()
    assert (optimisation.status, optimisation.error) == (Optimisation.Status.DONE, "")
    page = await get_page(web, response["Location"])
    assert "Chance does not explain the gain." in page.one(css="notice").text
    best = [row for row in page.all(tag="tr") if "best" in row.text]
    assert "Candidate 2" in best[0].text
    variant = await web.get(f"{response['Location']}variant/")
    assert "wind: miles per hour" in variant.content.decode()
    assert (await web.get(f"{response['Location']}variant/?candidate=0")).status_code == 404
    listed = await get_page(web, "/evals/thermo/units/")
    assert "2 runs of this evalset" in listed.one(id="evalset-runs").text
    assert (await web.post(f"{response['Location']}resume/")).status_code == 409


async def test_division_by_seed_keeps_the_other_fields(web, optimiser_process):
    response = await post_form(web, action="divide", seed="2")
    page = parse(response.content)
    assert "4 for training, 4 for validation" in page.one(css="section-head").text
    assert page.one(id="model").attrs["value"] == "offline-prompt-writer"


async def test_form_of_an_evalset_that_has_changed_is_refused_with_its_fields(web, optimiser_process):
    response = await post_form(web, seen="older")
    assert response.status_code == 422
    page = parse(response.content)
    assert "The evalset has changed since the form was opened" in page.one(css="notice-danger").text
    assert "4 for training, 4 for validation" in page.one(css="section-head").text
    assert page.one(id="model").attrs["value"] == "offline-prompt-writer"
    assert page.one(name="seen").attrs["value"] != "older"
    assert not await units_of_work.read(Optimisation.objects.exists)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "The optimiser has no model"),
        ({"model": "no-such-model"}, "There is no class for the optimiser's model"),
        ({"proposals": "many"}, "Proposals: 'many' is no whole number."),
        ({"part-1": "unused", "part-6": "unused"}, "There is no training case"),
        ({"optimiser": "other"}, "There is no optimiser 'other'."),
        ({"limit:tokens": "-1"}, "The limit of tokens must be a positive whole number"),
    ],
)
async def test_refused_form_starts_nothing(web, optimiser_process, changes, message):
    response = await post_form(web, **changes)
    assert response.status_code == 422
    assert message in parse(response.content).one(css="notice-danger").text
    assert not await units_of_work.read(Optimisation.objects.exists)


async def test_server_with_workers_refuses_in_words(web, optimiser_process):
    job_queue.register(object())
    try:
        response = await post_form(web)
    finally:
        job_queue.register(None)
    assert response.status_code == 422
    assert "run on workers" in parse(response.content).one(css="notice-danger").text


async def test_optimisation_without_its_process_can_be_resumed(web, agents):
    optimisation = await units_of_work.write(create_optimisation, agents)
    page = await get_page(web, f"/evals/optimisations/{optimisation.pk}/")
    assert "Crashed: The process that carried it out has ended." in page.one(css="notice").text
    assert page.one(id="optimisation-resume")
    assert not await units_of_work.read(EvalRun.objects.exists)


async def test_unknown_optimisation_is_not_found(web, agents):
    assert (await web.get("/evals/optimisations/none/")).status_code == 404
    assert (await web.post("/evals/optimisations/none/cancel/")).status_code == 404


def create_optimisation(agents: AgentsFolder) -> Optimisation:
    """Create an optimisation that belongs to no process."""
    request = EvalsetRequest("units", source="page")
    new_run = folder_orders.prepare_from_folder(agents, "thermo", request)
    settings = OptimiserSettings(SIMPLE, "offline-prompt-writer", ("rome_warm",), ("paris_warm",))
    agent = OptimisedAgent("thermo", "Hello.", agents.code_version("thermo"))
    return steps.create_optimisation(new_run, settings, agent, source="page")
