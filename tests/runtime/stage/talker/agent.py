from acting import Acting
from google.adk.agents import LlmAgent

root_agent = LlmAgent(name="talker", description="Says what it is told.", model=Acting(pause=0.05))
