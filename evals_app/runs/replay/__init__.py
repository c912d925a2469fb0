"""A run that repeats a recording: what is given again, what came of it, and how a session is replayed.

`engine.replay` does it, in the agent's process.
"""
