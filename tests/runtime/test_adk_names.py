"""The private names of ADK that the runtime uses exist and behave as expected."""

from __future__ import annotations

import inspect

import pytest
from google.adk.agents import config_agent_utils
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.cli import fast_api
from google.adk.cli.api_server import ApiServer
from google.adk.cli.dev_server import DevServer
from google.adk.cli.utils.base_agent_loader import _AgentLoadError
from google.adk.runners import Runner
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import FunctionNode, Workflow

from devui.runtime import _adk
from sessions_app.store.errors import AgentNotLoaded


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "good": "from google.adk.agents import LlmAgent\nroot_agent = LlmAgent(name='good_agent')\n",
        "bad": "import counted\ncounted.times += 1\nraise ValueError('no key')\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "agent.py").write_text(text)
    (tmp_path / "counted.py").write_text("times = 0\n")
    return tmp_path


def test_every_runner_of_the_server_comes_from_one_hook():
    assert inspect.signature(ApiServer._create_runner).parameters.keys() == {
        "self",
        "agentic_app",
        "app_name",
    }
    assert "self._create_runner(" in inspect.getsource(ApiServer.get_runner_async)
    assert inspect.getsource(DevServer).count("Runner(") == 0


def test_the_server_makes_runners_by_our_factory():
    app_names = []
    server = object.__new__(_adk.ManagedServer)
    server._make_runner = lambda app, name: app_names.append((app, name))
    app = App(name="a", root_agent=LlmAgent(name="b"))

    server._create_runner(app, "a")

    assert app_names == [(app, "a")]


def test_yaml_agents_are_held_to_the_rules_of_adk_web(monkeypatch):
    monkeypatch.setattr(config_agent_utils, "_ENFORCE_YAML_KEY_DENYLIST", False)
    _adk.enforce_yaml_denylist()
    assert config_agent_utils._ENFORCE_YAML_KEY_DENYLIST is True
    assert "_set_enforce_yaml_key_denylist(True)" in inspect.getsource(fast_api.get_fast_api_app)


def test_server_keeps_no_spans_in_memory():
    assert DevServer._serves_debug_trace_endpoints is True
    assert _adk.ManagedServer._serves_debug_trace_endpoints is False
    assert "if self._serves_debug_trace_endpoints:" in inspect.getsource(ApiServer.get_fast_api_app)


def test_internal_agents_are_not_served():
    assert DevServer._allow_special_agents is True
    assert _adk.ManagedServer._allow_special_agents is False


def test_runner_still_accepts_our_arguments():
    parameters = inspect.signature(Runner.run_async).parameters
    assert {
        "invocation_id",
        "state_delta",
        "run_config",
        "yield_user_message",
        "abort_signal",
    } <= parameters.keys()


def test_loader_serves_one_app_only(folder):
    loader = _adk.OneAppLoader(str(folder), "good")

    assert loader.list_agents() == ["good"]
    assert loader.load_agent("good").name == "good_agent"
    with pytest.raises(ValueError, match="This process runs 'good'"):
        loader.load_agent("bad")


def test_an_agent_that_failed_is_not_imported_again(folder):
    loader = _adk.OneAppLoader(str(folder), "bad")
    for _ in range(2):
        with pytest.raises(_AgentLoadError, match="no key"):
            loader.load_code("bad")
        with pytest.raises(AgentNotLoaded, match=r"Agent 'bad' could not be loaded: .*no key"):
            loader.load_agent("bad")

    import counted

    assert counted.times == 1
    assert _adk.AgentLoadError is _AgentLoadError


def test_tool_description_equals_the_models_declaration():
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    declaration = _adk.get_declaration(FunctionTool(add))
    assert declaration is not None
    assert declaration.name == "add"


def test_agents_and_workflows_are_nodes():
    assert issubclass(LlmAgent, _adk.Node)
    assert issubclass(Workflow, _adk.Node)
    assert {mode.name for mode in _adk.StreamingMode} >= {"NONE", "SSE", "BIDI"}


def test_context_parameter_of_a_tool_is_known():
    def named(city: str, tool_context) -> None: ...
    def typed(here: ToolContext) -> None: ...
    def without(city: str) -> None: ...
    def step(ctx, node_input: str) -> None: ...

    tools = [FunctionTool(function) for function in (named, typed, without)]
    assert [_adk.tool_context_parameter(tool) for tool in tools] == ["tool_context", "here", ""]
    assert [_adk.node_context_parameter(FunctionNode(func=arguments)) for arguments in (step, without)] == [
        "ctx",
        "",
    ]
    assert _adk.get_node_function(FunctionNode(func=step)) is step


def test_default_model_of_agents_is_known():
    assert LlmAgent(name="a").canonical_model.model == _adk.default_model()
