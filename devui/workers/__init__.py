"""Agents on many hosts: web processes without agents, and workers that run them (`DEVUI_ENGINE=procrastinate`).

A queued run is a row; a job of Procrastinate carries its id to a worker, in the transaction that writes the row. A
worker is a supervisor of runtime processes without pages. It advertises its apps with their code in its `Worker` row,
and serves its runtimes on an HTTP listener for web processes, which stream, cancel and forward ADK's paths through it.
"""
