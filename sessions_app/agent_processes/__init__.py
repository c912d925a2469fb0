"""The processes that run agents: their rows, limits and output."""
