import time

from acting import Acting
from google.adk.agents import LlmAgent


def nap(seconds: float) -> str:
    """Sleep as tools do that know nothing of event loops."""
    print("naps")
    time.sleep(seconds)
    return "awake"


root_agent = LlmAgent(name="napper", model=Acting(pause=0.01), tools=[nap])
