"""Options of the simulated user, by the names of ADK's `LlmBackedUserSimulatorConfig`. Pure."""

from __future__ import annotations

from evals_app.metrics.criterion_options import Option, Widget

NAME = "user_simulator_config"

OPTIONS = (
    Option("model", "Model", Widget.TEXT, placeholder="gemini-2.5-flash"),
    Option(
        "max_allowed_invocations", "Turns at most", Widget.NUMBER, None, placeholder="20", least=-1, most=1000
    ),
    Option("include_function_calls", "sees tool calls and their results", Widget.FLAG, False),
    Option("custom_instructions", "Instructions of your own", Widget.LINES),
)
"""Of a simulated user that a model plays. Who speaks aloud is the configuration file's to say."""
