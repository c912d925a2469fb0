"""Optimisations: ADK's optimisers search for a better instruction, and DevUI's engine scores their candidates."""
