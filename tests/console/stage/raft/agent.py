from pathlib import Path

from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig

HERE = Path(__file__).parent


def cross() -> str:
    """Cross the river, when there is a boat."""
    if not (HERE / "boat").exists():
        raise RuntimeError("No boat.")
    return "crossed"


app = App(
    name="raft",
    root_agent=LlmAgent(name="raft", model=Acting(), tools=[cross]),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
