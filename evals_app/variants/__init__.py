"""Variants of agents: what a file changes of agents, without their code being changed."""
