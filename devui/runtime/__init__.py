"""The runtime: the child process that loads the agents of one app and owns their runs.

Every module but `config` may import `google.adk`; the web process imports `config` only.
"""
