"""Private names of ADK that the runtime uses. A test uses each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from google.adk.agents import config_agent_utils
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.cli.dev_server import DevServer
from google.adk.cli.utils._nested_agent_loader import NestedAgentLoader
from google.adk.cli.utils.base_agent_loader import _AgentLoadError
from google.adk.environment import LocalEnvironment
from google.adk.features._feature_registry import FeatureStage, _get_feature_config
from google.adk.flows.llm_flows.prompt import _instructions_utils
from google.adk.runners import Runner
from google.adk.skills.models import Skill
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.environment import EnvironmentToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.skill_toolset import SkillToolset
from google.adk.workflow import BaseNode, FunctionNode
from google.genai import types
from typing_extensions import override

from devui.runtime.exception_text import safe_message
from sessions_app.agents.folder import explain_unloadable_name
from sessions_app.store.errors import AgentNotLoaded

__all__ = [
    "TEMPLATE_KEY",
    "AgentLoadError",
    "ManagedServer",
    "Node",
    "OneAppLoader",
    "RunnerFactory",
    "StreamingMode",
    "default_model",
    "enforce_yaml_denylist",
    "get_confirmation",
    "get_declaration",
    "get_environment",
    "get_node_function",
    "is_experimental",
    "list_skills",
    "node_context_parameter",
    "tool_context_parameter",
]

AgentLoadError = _AgentLoadError
TEMPLATE_KEY = _instructions_utils._TEMPLATE_VAR_PATTERN
"""Pattern of a placeholder for a state key or an artifact in an instruction."""

Node = BaseNode

RunnerFactory = Callable[[App, str], Runner]


class OneAppLoader(NestedAgentLoader):
    """ADK's loader, limited to the app of this process. An app that failed to load is not imported again."""

    def __init__(self, agents_dir: str, app_name: str) -> None:
        super().__init__(agents_dir)
        self._app_name = app_name
        self._failure: tuple[BaseException, TracebackType | None] | None = None

    @override
    def list_agents(self) -> list[str]:
        """Return the app of this process."""
        return [self._app_name]

    @override
    def load_agent(self, agent_name: str) -> BaseAgent | App:
        """Return the app or its root agent, for a request to ADK's server.

        Raises:
            ValueError: the name is not the app of this process.
            AgentNotLoaded: importing the agent's code raised any exception.
        """
        try:
            return self.load_code(agent_name)
        except BaseException as error:
            if self._failure is None:
                raise
            cause = error.__cause__ if isinstance(error, AgentLoadError) and error.__cause__ else error
            raise AgentNotLoaded(
                f"Agent {agent_name!r} could not be loaded: {type(cause).__name__}: {safe_message(cause)}",
                hint="The agent's page shows where it failed. Fix the code: the next request loads it again.",
            ) from error

    def load_code(self, agent_name: str) -> BaseAgent | App:
        """Return the app or its root agent.

        Raises:
            ValueError: the name is not the app of this process.
            BaseException: whatever the agent's code raised when it was imported, `SystemExit` included.
        """
        if agent_name != self._app_name:
            raise ValueError(f"Agent not found: {agent_name!r}. This process runs {self._app_name!r}.")
        if self._failure is not None:
            error, trace = self._failure
            raise error.with_traceback(trace)
        try:
            with explain_unloadable_name(Path(self.agents_dir), agent_name):
                return super().load_agent(agent_name)
        except BaseException as error:
            self._failure = error, error.__traceback__
            raise


class ManagedServer(DevServer):
    """ADK's development server with DevUI's runners. Spans are stored as rows and not kept in memory."""

    _allow_special_agents = False
    _serves_debug_trace_endpoints = False

    def __init__(self, *, make_runner: RunnerFactory, **services: Any) -> None:
        super().__init__(**services)
        self._make_runner = make_runner

    @override
    def _create_runner(self, agentic_app: App, app_name: str) -> Runner:
        return self._make_runner(agentic_app, app_name)


def enforce_yaml_denylist() -> None:
    """Refuse the same keys of YAML agents as `adk web`: they run code that a page could upload."""
    config_agent_utils._set_enforce_yaml_key_denylist(True)


def get_declaration(tool: BaseTool) -> types.FunctionDeclaration | None:
    """Return the function declaration that the model receives for a tool."""
    return tool._get_declaration()


def list_skills(toolset: BaseToolset) -> list[Skill]:
    """Return the skills of a toolset; none for a toolset of another kind."""
    return list(toolset._skills.values()) if isinstance(toolset, SkillToolset) else []


def get_confirmation(tool: Any) -> bool | Callable[..., Any]:
    """Return whether a tool, toolset or workflow node asks for a confirmation, or the function that decides it."""
    confirmation = getattr(tool, "require_confirmation", None) or getattr(
        tool, "_require_confirmation", False
    )
    return confirmation if callable(confirmation) else bool(confirmation)


def is_experimental(cls: type) -> bool:
    """Tell whether ADK marks a class, or one that it inherits from, as experimental or as work in progress.

    ADK's decorators leave no mark but the variables of the `__init__` that they wrap (`features/_feature_decorator.py`,
    `utils/feature_decorator.py`).
    """
    return any(_is_marked(vars(base).get("__init__")) for base in cls.__mro__)


def _is_marked(init: Any) -> bool:
    names = inspect.getclosurevars(init).nonlocals if inspect.isfunction(init) else {}
    if check := names.get("check_feature_enabled"):
        config = _get_feature_config(inspect.getclosurevars(check).nonlocals["feature_name"])
        return config is not None and config.stage is not FeatureStage.STABLE
    return "block_usage" in names


def get_environment(toolset: BaseToolset) -> tuple[str, str]:
    """Return the type and the working directory of the environment in which a toolset works; empty: none, not set."""
    if isinstance(toolset, SkillToolset):
        environment = toolset._env
    elif isinstance(toolset, EnvironmentToolset):
        environment = toolset._environment
    else:
        return "", ""
    if environment is None:
        return "", ""
    folder = environment._working_dir if isinstance(environment, LocalEnvironment) else None
    return type(environment).__name__, str(folder or "")


def default_model() -> str:
    """Return the model name of agents that neither set nor inherit a model."""
    model = LlmAgent._default_model
    return model if isinstance(model, str) else model.model


def tool_context_parameter(tool: BaseTool) -> str:
    """Return the name of the parameter that receives a tool's context; empty for a function without one."""
    if not isinstance(tool, FunctionTool):
        return "tool_context"
    name = tool._context_param_name
    return name if name in inspect.signature(tool.func).parameters else ""


def node_context_parameter(node: FunctionNode) -> str:
    """Return the name of the parameter that receives a node's context; empty for a function without one."""
    name = node._context_param_name
    return name if name in inspect.signature(node._func).parameters else ""


def get_node_function(node: FunctionNode) -> Callable[..., Any]:
    """Return the function that a workflow node calls."""
    return node._func
