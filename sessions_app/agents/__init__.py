"""The agents folder, read without importing any agent; agent cards, remote servers, the description of an agent."""
