"""Content of the agent page: description, drawing, and the path of an invocation through the agents."""
