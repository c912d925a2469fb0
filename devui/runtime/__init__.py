"""The runtime: the child process that loads the agents of one app and owns their runs.

Everything here but `config` imports `google.adk`; the web process imports `config` only.
"""
