from pathlib import Path

from acting import Acting
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig

HERE = Path(__file__).parent


def cross() -> str:
    """Cross the river, when there is a boat."""
    if not (HERE / "boat").exists():
        raise RuntimeError("No boat.")
    return "crossed"


pilot = LlmAgent(name="pilot", model=Acting(), tools=[cross])

app = App(
    name="ferry",
    root_agent=SequentialAgent(name="ferry", sub_agents=[pilot]),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
