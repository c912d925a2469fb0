"""Cannot be loaded."""

raise RuntimeError("this agent is broken on purpose")
