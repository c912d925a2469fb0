"""Runs: their rows, the runtime processes that carry them out, and the client of those processes.

`Run.request` is JSON: `new_message` (ADK's Content, or null), `streaming` (bool), `state_delta` (or null),
`invocation_id` (to resume one, or null), `run_config` (fields of ADK's RunConfig), `custom_metadata`,
`function_call_event_id` and `pause_at` (`console.pause_points`). Every key may be missing.
"""
