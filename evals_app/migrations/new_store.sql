-- Written by `make new-store` from this app's migrations. See `sessions_app/store/database/new_store.py`.

CREATE TABLE "evals_app_evalset" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_name" text NOT NULL, "evalset_id" text NOT NULL, "path" text NOT NULL, "format" varchar(8) NOT NULL, "form" varchar(8) NOT NULL, "name" text NOT NULL, "description" text NOT NULL, "digest" varchar(64) NOT NULL, "stamp" text NOT NULL, "cases" text NOT NULL, "case_count" integer NOT NULL, "problems" text NOT NULL, "warnings" text NOT NULL, "gone" bool NOT NULL, "seen_at" real NOT NULL, CONSTRAINT "evalset_identity" UNIQUE ("app_name", "evalset_id"));

CREATE TABLE "evals_app_evalsetversion" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "evalset_id" bigint NOT NULL REFERENCES "evals_app_evalset" ("id") DEFERRABLE INITIALLY DEFERRED, "digest" varchar(64) NOT NULL, "content" text NOT NULL, "created_at" real NOT NULL, "origin" varchar(16) NOT NULL, "note" text NOT NULL, CONSTRAINT "evalset_version_identity" UNIQUE ("evalset_id", "digest"));

CREATE TABLE "evals_app_knownmetric" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" text NOT NULL UNIQUE, "data" text NOT NULL, "adk_version" varchar(32) NOT NULL, "seen_at" real NOT NULL);

CREATE TABLE "evals_app_metricresult" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "attempt_id" bigint NOT NULL REFERENCES "evals_app_evalattempt" ("id") DEFERRABLE INITIALLY DEFERRED, "position" integer NOT NULL, "metric" text NOT NULL, "invocation" integer NULL, "score" real NULL, "threshold" real NULL, "status" varchar(16) NOT NULL, "reason" text NOT NULL, "details" text NOT NULL);

CREATE TABLE "evals_app_modelrate" ("model" text NOT NULL PRIMARY KEY, "requests_per_minute" bigint NULL, "tokens_per_minute" bigint NULL, "minute" text NOT NULL, "blocked_at" real NOT NULL, "blocked_until" real NOT NULL, "blocked_because" text NOT NULL, "blocked_by_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED);

CREATE INDEX "evals_app_evalsetversion_evalset_id_acf3aeb7" ON "evals_app_evalsetversion" ("evalset_id");

CREATE INDEX "evals_app_metricresult_attempt_id_3faedc9c" ON "evals_app_metricresult" ("attempt_id");

CREATE INDEX "metric_of_attempt" ON "evals_app_metricresult" ("attempt_id", "invocation", "position");

CREATE INDEX "evals_app_modelrate_blocked_by_id_5ccfe96d" ON "evals_app_modelrate" ("blocked_by_id");

CREATE TABLE "evals_app_playgroundrun" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" text NOT NULL, "person" text NOT NULL, "columns" text NOT NULL, "created_at" real NOT NULL, "call_id" bigint NOT NULL REFERENCES "sessions_app_modelcall" ("id") DEFERRABLE INITIALLY DEFERRED, "runtime_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED);

CREATE TABLE "evals_app_playgroundanswer" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "column" integer NOT NULL, "repetition" integer NOT NULL, "status" varchar(16) NOT NULL, "model" text NOT NULL, "started_at" real NULL, "first_at" real NULL, "finished_at" real NULL, "response" text NOT NULL, "prompt_tokens" integer NOT NULL, "output_tokens" integer NOT NULL, "thought_tokens" integer NOT NULL, "cached_tokens" integer NOT NULL, "total_tokens" integer NOT NULL, "error_type" text NOT NULL, "error" text NOT NULL, "run_id" bigint NOT NULL REFERENCES "evals_app_playgroundrun" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "playground_answer_identity" UNIQUE ("run_id", "column", "repetition"));

CREATE INDEX "evals_app_playgroundrun_call_id_640bb39c" ON "evals_app_playgroundrun" ("call_id");

CREATE INDEX "evals_app_playgroundrun_runtime_id_bcf692b1" ON "evals_app_playgroundrun" ("runtime_id");

CREATE INDEX "evals_app_playgroundrun_session_id_60ecb5f1" ON "evals_app_playgroundrun" ("session_id");

CREATE INDEX "evals_app_playgroundanswer_run_id_dde975b7" ON "evals_app_playgroundanswer" ("run_id");

CREATE INDEX "playground_answer_active" ON "evals_app_playgroundanswer" ("run_id") WHERE "status" IN ('queued', 'running');

CREATE TABLE "evals_app_evalattempt" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "run_id" varchar(32) NOT NULL REFERENCES "evals_app_evalrun" ("id") DEFERRABLE INITIALLY DEFERRED, "case_index" integer NOT NULL, "case_id" text NOT NULL, "repetition" integer NOT NULL, "status" varchar(16) NOT NULL, "realm" text NOT NULL, "session_id" bigint NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "runtime_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "tries" integer NOT NULL, "earlier" text NOT NULL, "note" text NOT NULL, "note_person" text DEFAULT '' NOT NULL, "started_at" real NULL, "finished_at" real NULL, "cancel_requested_at" real NULL, "stopped_because" text NOT NULL, "waits_for" text NOT NULL, "waited_seconds" real NOT NULL, "judged_by" text NOT NULL, "total_tokens" bigint NOT NULL, "prompt_tokens" bigint NOT NULL, "output_tokens" bigint NOT NULL, "cached_tokens" bigint NOT NULL, "by_model" text NOT NULL, "cost" real NULL, "model_seconds" real NULL, "judge" text NOT NULL, "differences" text NOT NULL, "error_type" text NOT NULL, "error" text NOT NULL, "traceback" text NOT NULL, "cause" text NOT NULL, "actual" text NOT NULL, "revision" bigint NOT NULL, "fixture_answers" text DEFAULT '[]' NOT NULL, CONSTRAINT "eval_attempt_identity" UNIQUE ("run_id", "case_index", "repetition"));

CREATE INDEX "evals_app_evalattempt_run_id_b9c3efcc" ON "evals_app_evalattempt" ("run_id");

CREATE INDEX "evals_app_evalattempt_session_id_dac9aa2c" ON "evals_app_evalattempt" ("session_id");

CREATE INDEX "eval_attempt_changed" ON "evals_app_evalattempt" ("run_id", "revision");

CREATE INDEX "eval_attempt_by_status" ON "evals_app_evalattempt" ("run_id", "status");

CREATE INDEX "eval_attempt_by_runtime" ON "evals_app_evalattempt" ("runtime_id") WHERE "runtime_id" IS NOT NULL;

CREATE TABLE "evals_app_evalrun" ("id" varchar(32) NOT NULL PRIMARY KEY, "evalset_id" bigint NOT NULL REFERENCES "evals_app_evalset" ("id") DEFERRABLE INITIALLY DEFERRED, "version_id" bigint NOT NULL REFERENCES "evals_app_evalsetversion" ("id") DEFERRABLE INITIALLY DEFERRED, "app_name" text NOT NULL, "status" varchar(16) NOT NULL, "source" varchar(16) NOT NULL, "person" text DEFAULT '' NOT NULL, "config" text NOT NULL, "config_source" text NOT NULL, "case_ids" text NOT NULL, "shard" varchar(16) NOT NULL, "num_runs" integer NOT NULL, "parallelism" integer NOT NULL, "policy" text NOT NULL, "limits" text NOT NULL, "prices" text NOT NULL, "baseline" bool NOT NULL, "baseline_person" text DEFAULT '' NOT NULL, "note" text NOT NULL, "note_person" text DEFAULT '' NOT NULL, "warnings" text NOT NULL, "runtime_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "code_version" varchar(64) NOT NULL, "git_revision" text NOT NULL, "adk_version" varchar(32) NOT NULL, "agent_models" text NOT NULL, "model_versions" text DEFAULT '{}' NOT NULL, "packages" text DEFAULT '{}' NOT NULL, "environment" text DEFAULT '{}' NOT NULL, "created_at" real NOT NULL, "queued_at" real NOT NULL, "started_at" real NULL, "finished_at" real NULL, "cancel_requested_at" real NULL, "resumed" integer NOT NULL, "last_step_at" real NULL, "limits_from" real NULL, "limits_seconds" real NOT NULL, "spent_seconds" real NOT NULL, "stopped_because" text NOT NULL, "error_type" text NOT NULL, "error" text NOT NULL, "hint" text NOT NULL, "traceback" text NOT NULL, "revision" bigint NOT NULL, "total" integer NOT NULL, "passed" integer NOT NULL, "failed" integer NOT NULL, "errors" integer NOT NULL, "incomplete" integer NOT NULL, "cancelled" integer NOT NULL, "variant" text DEFAULT '' NOT NULL, "variant_hash" varchar(16) DEFAULT '' NOT NULL, "repeats_id" varchar(32) NULL REFERENCES "evals_app_evalrun" ("id") DEFERRABLE INITIALLY DEFERRED, "variant_of_id" varchar(32) NULL REFERENCES "evals_app_evalrun" ("id") DEFERRABLE INITIALLY DEFERRED);

CREATE UNIQUE INDEX "eval_run_one_baseline" ON "evals_app_evalrun" ("evalset_id") WHERE "baseline";

CREATE INDEX "evals_app_evalrun_evalset_id_5eda9631" ON "evals_app_evalrun" ("evalset_id");

CREATE INDEX "evals_app_evalrun_version_id_64a16389" ON "evals_app_evalrun" ("version_id");

CREATE INDEX "evals_app_evalrun_runtime_id_9ba7b417" ON "evals_app_evalrun" ("runtime_id");

CREATE INDEX "evals_app_evalrun_repeats_id_04fc0b78" ON "evals_app_evalrun" ("repeats_id");

CREATE INDEX "eval_run_newest" ON "evals_app_evalrun" ("evalset_id", "created_at" DESC);

CREATE INDEX "eval_run_by_status" ON "evals_app_evalrun" ("status", "created_at");

CREATE INDEX "evals_app_evalrun_variant_of_id_124b9639" ON "evals_app_evalrun" ("variant_of_id");

CREATE TABLE "evals_app_optimisation" ("id" varchar(32) NOT NULL PRIMARY KEY, "agent" text NOT NULL, "instruction" text NOT NULL, "code_version" varchar(64) NOT NULL, "settings" text NOT NULL, "run_order" text NOT NULL, "source" varchar(16) NOT NULL, "person" text NOT NULL, "status" varchar(16) NOT NULL, "created_at" real NOT NULL, "finished_at" real NULL, "cancel_requested_at" real NULL, "resumed" integer NOT NULL, "best_instruction" text NULL, "error" text NOT NULL, "hint" text NOT NULL, "comparison_id" varchar(32) NULL REFERENCES "evals_app_evalrun" ("id") DEFERRABLE INITIALLY DEFERRED, "evalset_id" bigint NOT NULL REFERENCES "evals_app_evalset" ("id") DEFERRABLE INITIALLY DEFERRED, "runtime_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "version_id" bigint NOT NULL REFERENCES "evals_app_evalsetversion" ("id") DEFERRABLE INITIALLY DEFERRED);

CREATE INDEX "optimisation_newest" ON "evals_app_optimisation" ("evalset_id", "created_at" DESC);

CREATE TABLE "evals_app_optimisationstep" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "position" integer NOT NULL, "kind" varchar(16) NOT NULL, "prompt" text NOT NULL, "answer" text NOT NULL, "prompt_tokens" integer NOT NULL, "output_tokens" integer NOT NULL, "thought_tokens" integer NOT NULL, "cached_tokens" integer NOT NULL, "total_tokens" integer NOT NULL, "instruction" text NOT NULL, "example_set" varchar(16) NOT NULL, "case_ids" text NOT NULL, "scores" text NOT NULL, "evaluation_data" text NOT NULL, "started_at" real NOT NULL, "finished_at" real NULL, "optimisation_id" varchar(32) NOT NULL REFERENCES "evals_app_optimisation" ("id") DEFERRABLE INITIALLY DEFERRED, "run_id" varchar(32) NULL REFERENCES "evals_app_evalrun" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "optimisation_step_identity" UNIQUE ("optimisation_id", "position"));

CREATE INDEX "evals_app_optimisation_comparison_id_7c8ee0d5" ON "evals_app_optimisation" ("comparison_id");

CREATE INDEX "evals_app_optimisation_evalset_id_5daee45e" ON "evals_app_optimisation" ("evalset_id");

CREATE INDEX "evals_app_optimisation_runtime_id_e4061723" ON "evals_app_optimisation" ("runtime_id");

CREATE INDEX "evals_app_optimisation_version_id_1cb183ae" ON "evals_app_optimisation" ("version_id");

CREATE INDEX "evals_app_optimisationstep_optimisation_id_df26950b" ON "evals_app_optimisationstep" ("optimisation_id");

CREATE INDEX "evals_app_optimisationstep_run_id_9399196c" ON "evals_app_optimisationstep" ("run_id");

INSERT INTO django_migrations (app, name, applied) VALUES
('evals_app', '0001_initial', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0002_runs_taken_up_again', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0003_when_runs_are_given_out', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0004_attempts_have_a_cause', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0005_runs_go_on_by_themselves', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0006_attempts_say_what_they_wait_for', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0007_run_time_by_the_clock_of_its_process', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0008_runs_of_a_shard', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0009_plain_help_texts', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0010_runtime_of_attempts', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0011_persons', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0012_rates_of_models', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0013_facts_of_environment', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0014_first_outcomes_count', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0002_playground', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0003_fixtures', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0004_variants', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0005_optimisations', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('evals_app', '0001_schema', strftime('%Y-%m-%d %H:%M:%f', 'now'));
