"""Migrations of the tables of this app. `0001_schema` creates all of them.

Stores that were written before the first release have the migrations of that time instead: see `sessions_app.store.database.schema`.
"""

REPLACED = [
    ("sessions_app", "0001_initial"),
    ("sessions_app", "0002_lineage_and_app_settings"),
    ("sessions_app", "0003_untracked_keys"),
    ("sessions_app", "0004_titles_tags_and_views"),
    ("sessions_app", "0005_mirrored_sessions"),
    ("sessions_app", "0006_search_indexes"),
    ("sessions_app", "0007_branches_are_traits"),
    ("sessions_app", "0008_rows_of_a_session_by_one_index"),
    ("sessions_app", "0009_events_that_touch_others"),
    ("sessions_app", "0010_events_are_found_by_their_ids"),
    ("sessions_app", "0011_what_runs_looked_like_from_inside"),
    ("sessions_app", "0012_runs_that_wait"),
    ("sessions_app", "0013_files_and_memory_by_time"),
    ("sessions_app", "0014_spans_by_event"),
    ("sessions_app", "0015_which_code_ran"),
    ("sessions_app", "0016_sets_of_sessions"),
    ("sessions_app", "0017_queued_runs_wait_for_the_next_server"),
    ("sessions_app", "0018_failed_model_calls_are_found_at_once"),
    ("sessions_app", "0019_failed_tool_results_count_as_errors"),
    ("sessions_app", "0020_processes_have_an_identity"),
    ("sessions_app", "0021_kind_without_choices"),
    ("sessions_app", "0022_start_time_of_processes_is_not_used"),
    ("sessions_app", "0023_plain_help_texts"),
    ("sessions_app", "0024_problems_of_sessions"),
    ("sessions_app", "0025_nested_runs_logs_and_problems"),
    ("sessions_app", "0026_trends"),
    ("sessions_app", "0027_usage_of_sessions"),
    ("sessions_app", "0028_index_of_trends"),
    ("sessions_app", "0029_persons"),
    ("sessions_app", "0030_usage_of_persons"),
]
"""Migrations before the first release, which `0001_schema` replaces."""
