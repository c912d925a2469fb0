"""Migrations of the tables of this app. `0001_schema` creates all of them.

Stores that were written before the first release have the migrations of that time instead: see `sessions_app.store.database.schema`.
"""

REPLACED = [
    ("evals_app", "0001_initial"),
    ("evals_app", "0002_runs_taken_up_again"),
    ("evals_app", "0003_when_runs_are_given_out"),
    ("evals_app", "0004_attempts_have_a_cause"),
    ("evals_app", "0005_runs_go_on_by_themselves"),
    ("evals_app", "0006_attempts_say_what_they_wait_for"),
    ("evals_app", "0007_run_time_by_the_clock_of_its_process"),
    ("evals_app", "0008_runs_of_a_shard"),
    ("evals_app", "0009_plain_help_texts"),
    ("evals_app", "0010_runtime_of_attempts"),
    ("evals_app", "0011_persons"),
    ("evals_app", "0012_rates_of_models"),
    ("evals_app", "0013_facts_of_environment"),
    ("evals_app", "0014_first_outcomes_count"),
]
"""Migrations before the first release, which `0001_schema` replaces."""
