"""Reading the stores of other programs: ADK in its languages, `adk web`'s files, session JSON.

Everything here only reads, and never imports ADK: rows are untrusted, so they are not unpickled and not validated
by its models. `sessions_app.transfer.writers` writes what is read.
"""
