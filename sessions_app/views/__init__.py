"""Pages of sessions, state, runs, artifacts, memory, traces and agents: one module or package per page."""
