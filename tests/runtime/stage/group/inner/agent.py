import os

from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.apps.app import App

app = App(
    name="inner",
    root_agent=LlmAgent(name="inner", description=os.environ["STAGE_GREETING"], model=Acting()),
)
