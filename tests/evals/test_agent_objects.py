"""Agents that are no folder: objects, apps and factories, found by module and name."""

from __future__ import annotations

import sys
import types
from functools import partial
from pathlib import Path

import pytest

from devui.testing import Refused, devui_evalset, evaluate, plugin
from devui.testing.agent_argument import describe_agent
from sessions_app.agents.agent_module import find_module
from sessions_app.store.errors import BadInput, NotFound
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.echo_agent import AGENT
from tests.evals.pytest_suites import ROOT, SUITE_ARGUMENTS, read_store, run_pytest, write_test
from tests.evals.run_evals_command import environment, run_evals_argv

CLERKS = (
    AGENT.replace("root_agent = ", "clerk = ").replace('name="echo"', 'name="clerk"')
    + """
from google.adk.apps.app import App

shop = App(name="shop", root_agent=Echo(name="seller"))


def make_agent():
    return Echo(name="made")


async def make_app():
    return App(name="made_later", root_agent=Echo(name="seller"))


def make_for(customer):
    return Echo(name=customer)


def make_nothing():
    return None
"""
)


@pytest.fixture
def shop(suite, monkeypatch):
    """A suite with a package of agents beside it; the evalset is a file of the suite."""
    package = suite / "src" / "shop_agents"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "clerks.py").write_text(CLERKS)
    (suite / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\npythonpath = src\n"
    )
    write(suite / "tests", "s.evalset.json", evalset(case("a", turn("a", "a"))))
    monkeypatch.syspath_prepend(suite / "src")
    yield suite
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop_agents"]:
        del sys.modules[name]


JUDGED = SUITE_ARGUMENTS.partition(", ")[2]

AGENT_OBJECTS = f"""
from google.adk.agents.base_agent import BaseAgent
from shop_agents import clerks
from shop_agents.clerks import Echo, clerk

S = "s.evalset.json"
own = Echo(name="own")
test_clerk = devui_evalset(S, agent=clerk, {JUDGED})
test_own = devui_evalset(S, agent=own, {JUDGED})

@pytest.mark.parametrize(("agent", "app"), [
    (clerks.shop, "shop"),
    (clerks.make_agent, "made"),
    (clerks.make_app, "made_later"),
    ("shop_agents.clerks:make_agent", "made"),
])
def test_agent(agent, app):
    results = evaluate(S, agent=agent, {JUDGED})
    assert results.passed
    assert results.facts["app"] == app
    assert results.facts["path"] == "tests/s.evalset.json"

@pytest.mark.parametrize(("agent", "message"), [
    ("shop_agents.clerks:make_for", "make_for.. missing 1 required positional argument"),
    ("shop_agents.clerks:make_nothing", "is no agent, App or factory of one, but NoneType"),
    ("shop_agents.clerks:nobody", "has no attribute 'nobody'"),
])
def test_refusal(agent, message):
    with pytest.raises(Refused, match=message) as refusal:
        evaluate(S, agent=agent, {JUDGED})
    assert len(str(refusal.value).splitlines()) == 1
"""


@pytest.mark.soak
def test_objects_apps_factories_and_dotted_paths_are_evaluated(shop):
    write_test(shop, AGENT_OBJECTS)
    done = run_pytest(shop)
    assert "9 passed" in done.stdout, done.stdout + done.stderr
    runs = dict(read_store(shop, "SELECT app_name, code_version FROM evals_app_evalrun"))
    assert runs.keys() == {"clerk", "own", "shop", "made", "made_later"}
    assert runs["clerk"] == runs["made"] != runs["own"]


@pytest.mark.soak
def test_command_line_takes_the_module_and_name_of_an_agent(store, shop):
    arguments = run_evals_argv(
        "shop_agents.clerks:make_agent",
        shop / "tests" / "s.evalset.json",
        "--metrics",
        "response_match_score",
    )
    arguments[1] = str(ROOT / arguments[1])
    done = forked_processes.run(arguments, cwd=shop / "src", env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 passed" in done.stdout
    arguments[3] = "shop_agents.clerks:nobody"
    refused = forked_processes.run(arguments, cwd=shop / "src", env=environment())
    assert refused.returncode == 2
    assert "The agent shop_agents.clerks:nobody cannot be loaded: AttributeError" in refused.stderr
    assert "Traceback" not in refused.stderr


def describe(agent, caller=None):
    return describe_agent(Path.cwd(), agent, caller or {})


def test_object_is_named_by_the_module_that_assigns_it(shop):
    from shop_agents import clerks

    caller = types.ModuleType("test_caller")
    caller.__file__, caller.imported = "/tests/test_caller.py", clerks.clerk
    sys.modules["test_caller"] = caller
    try:
        assert describe(clerks.clerk, vars(caller)) == {
            "reference": "shop_agents.clerks:clerk",
            "file": str(shop / "src" / "shop_agents" / "clerks.py"),
            "name": "clerk",
        }
        caller.make = partial(clerks.make_for, "x")
        assert describe(caller.make, vars(caller))["reference"] == "test_caller:make"
    finally:
        del sys.modules["test_caller"]


def test_function_is_named_by_its_definition_and_the_agent_unknown(shop):
    from shop_agents import clerks

    assert describe(clerks.make_agent) == {
        "reference": "shop_agents.clerks:make_agent",
        "file": str(shop / "src" / "shop_agents" / "clerks.py"),
        "name": "",
    }


def test_agents_that_no_process_can_import_are_refused(shop):
    from shop_agents.clerks import Echo

    way_out = "give `module:name`, or a factory at the top level of a module"
    for agent in (Echo(name="made_here"), lambda: Echo(name="x"), partial(Echo, name="x")):
        with pytest.raises(Refused, match=f"has no name in a module, .*{way_out}"):
            describe(agent)
    with pytest.raises(Refused, match="42 is no agent: give a folder"):
        describe(42)
    with pytest.raises(Refused, match=r"There is no agent 'shop_agents\.nobody'"):
        describe("shop_agents.nobody")


def test_tests_in_the_module_of_an_agent_are_not_evaluated_with_it(shop, monkeypatch):
    monkeypatch.setattr(plugin, "is_evaluating", True)
    assert devui_evalset("s", agent="shop_agents.clerks:clerk").pytestmark[0].args[1] == ()
    with pytest.raises(Refused, match="keep the agent in another module"):
        evaluate("s", agent="shop_agents.clerks:clerk")


def test_module_is_refused_that_another_process_would_load_from_elsewhere(shop):
    clerks = shop / "src" / "shop_agents" / "clerks.py"
    assert find_module("shop_agents.clerks:clerk", str(clerks)).path == clerks.parent
    with pytest.raises(BadInput, match=r"which this suite loaded from /elsewhere/clerks\.py"):
        find_module("shop_agents.clerks:clerk", "/elsewhere/clerks.py")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("shop_agents.nobody:clerk", "The module 'shop_agents.nobody' of the agent cannot be imported"),
        ("nowhere.clerks:clerk", "The module 'nowhere.clerks' of the agent cannot be imported"),
        ("shop agents:clerk", "is not the module and name of an agent"),
        ("shop_agents.clerks:", "is not the module and name of an agent"),
        ("shop_broken.clerks:clerk", "ValueError: no shop today"),
    ],
)
def test_reference_without_a_module_is_refused(shop, reference, message):
    broken = shop / "src" / "shop_broken"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ValueError('no shop today')")
    with pytest.raises(BadInput, match=message):
        find_module(reference)


def test_code_version_is_of_the_package_and_not_of_what_is_beside_it(shop):
    def version():
        return find_module("shop_agents.clerks:clerk").for_app("clerk").code_version("clerk")

    before = version()
    (shop / "src" / "beside.py").write_text("x = 1")
    (shop / "src" / "shop_agents" / "notes.csv").write_text("x")
    assert version() == before
    (shop / "src" / "shop_agents" / "prompts.py").write_text("PROMPT = 'be kind'")
    assert version() != before


def test_code_version_of_a_module_without_a_package_is_of_its_folder(shop):
    (shop / "src" / "lonely.py").write_text("agent = None")

    def version():
        return find_module("lonely:agent").for_app("x").code_version("x")

    before = version()
    (shop / "src" / "beside.py").write_text("x = 1")
    assert version() != before


def test_module_has_one_app_under_the_name_of_its_agent(shop):
    module = find_module("shop_agents.clerks:clerk").for_app("clerk")
    assert module.names() == ["clerk"]
    with pytest.raises(NotFound, match=r"shop_agents\.clerks:clerk is the agent 'clerk', not 'other'"):
        module.app_folder("other")
