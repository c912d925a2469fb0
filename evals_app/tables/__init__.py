"""Lists of evals as tables: see `sessions_app.tables`."""
