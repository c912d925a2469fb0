from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.tools import LongRunningFunctionTool


def ask_boss(what: str) -> dict[str, str]:
    """Ask somebody who answers later."""
    return {"status": "pending", "what": what}


root_agent = LlmAgent(name="patient", model=Acting(), tools=[LongRunningFunctionTool(ask_boss)])
