-- Written by `make new-store` from this app's migrations. See `sessions_app/store/database/new_store.py`.

CREATE TABLE "sessions_app_agentcard" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_name" text NOT NULL UNIQUE, "status" varchar(8) NOT NULL, "code_version" varchar(64) NOT NULL, "description" text NOT NULL, "error" text NOT NULL, "checked_at" real NOT NULL);

CREATE TABLE "sessions_app_agentsession" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "realm" text NOT NULL, "app_name" text NOT NULL, "user_id" text NOT NULL, "session_id" text NOT NULL, "created_at" real NOT NULL, "updated_at" real NOT NULL, "revision" bigint NOT NULL, "last_seq" bigint NOT NULL, "origin" varchar(16) NOT NULL, "title" text NOT NULL, "title_person" text DEFAULT '' NOT NULL, "first_text" text NOT NULL, "last_text" text NOT NULL, "error_count" integer NOT NULL, "total_tokens" bigint NOT NULL, "forked_from_id" bigint NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "forked_seq" bigint NULL, "lineage" text NOT NULL, "pinned_at" real NULL, "pinned_person" text DEFAULT '' NOT NULL, "indexed_seq" bigint DEFAULT -1 NOT NULL, "problem_count" integer DEFAULT 0 NOT NULL, "problems_beyond" integer DEFAULT 0 NOT NULL, "problems_seq" bigint DEFAULT -1 NOT NULL, "problems_version" integer DEFAULT 0 NOT NULL, CONSTRAINT "session_identity" UNIQUE ("realm", "app_name", "user_id", "session_id"));

CREATE TABLE "sessions_app_appscope" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "realm" text NOT NULL, "app_name" text NOT NULL, "version" bigint NOT NULL, CONSTRAINT "app_scope_identity" UNIQUE ("realm", "app_name"));

CREATE TABLE "sessions_app_appsettings" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_name" text NOT NULL UNIQUE, "session_ttl_s" real NULL);

CREATE TABLE "sessions_app_appstate" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" text NOT NULL, "key_id" varchar(255) NOT NULL, "value" text NOT NULL, "private" text NULL, "note" varchar(32) NOT NULL, "position" bigint NOT NULL, "owner_id" bigint NOT NULL REFERENCES "sessions_app_appscope" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "app_state_key" UNIQUE ("owner_id", "key_id"));

CREATE TABLE "sessions_app_artifact" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "realm" text NOT NULL, "app_name" text NOT NULL, "user_id" text NOT NULL, "session_id" text NOT NULL, "filename" text NOT NULL, "filename_id" varchar(255) NOT NULL, "version" bigint NOT NULL, "holding" varchar(8) NOT NULL, "mime_type" text NULL, "size" bigint NOT NULL, "sha256" varchar(64) NOT NULL, "content" BLOB NULL, "part" text NOT NULL, "custom_metadata" text NOT NULL, "created_at" real NOT NULL, "from_session" text NOT NULL, CONSTRAINT "artifact_version" UNIQUE ("realm", "app_name", "user_id", "session_id", "filename_id", "version"));

CREATE TABLE "sessions_app_deletedsession" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL UNIQUE REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "batch" varchar(32) NOT NULL, "realm" text NOT NULL, "deleted_at" real NOT NULL);

CREATE TABLE "sessions_app_event" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "seq" bigint NOT NULL, "event_id" text NOT NULL, "invocation_id" text NOT NULL, "author" text NOT NULL, "kind" varchar(16) NOT NULL, "timestamp" real NOT NULL, "branch" text NOT NULL, "app_version" bigint NOT NULL, "user_version" bigint NOT NULL, "is_final" bool NOT NULL, "total_tokens" integer NOT NULL, "summary" text NOT NULL, "data" text NOT NULL, "private" text NULL, CONSTRAINT "event_seq" UNIQUE ("session_id", "seq"), CONSTRAINT "event_identity" UNIQUE ("session_id", "event_id"));

CREATE TABLE "sessions_app_eventwords" ("id" bigint NOT NULL PRIMARY KEY, "words" text NULL);

CREATE TABLE "sessions_app_importsource" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "location" text NOT NULL UNIQUE, "format" text NOT NULL, "fingerprint" text NOT NULL, "read_at" real NULL);

CREATE TABLE "sessions_app_importedscope" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "source_id" bigint NOT NULL REFERENCES "sessions_app_importsource" ("id") DEFERRABLE INITIALLY DEFERRED, "scope" varchar(8) NOT NULL, "owner_id" bigint NOT NULL, "version" bigint NOT NULL, CONSTRAINT "imported_scope" UNIQUE ("scope", "owner_id"));

CREATE TABLE "sessions_app_importedsession" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL UNIQUE REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "source_id" bigint NOT NULL REFERENCES "sessions_app_importsource" ("id") DEFERRABLE INITIALLY DEFERRED, "last_seq" bigint NOT NULL, "is_settled" bool NOT NULL);

CREATE TABLE "sessions_app_logrecord" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "invocation_id" text NOT NULL, "ref" varchar(32) NOT NULL, "number" integer NOT NULL, "at" real NOT NULL, "level" integer NOT NULL, "source" varchar(8) NOT NULL, "logger" text NOT NULL, "agent" text NOT NULL, "tool" text NOT NULL, "call_id" text NOT NULL, "after_event_id" text NOT NULL, "message" text NOT NULL, CONSTRAINT "log_record_identity" UNIQUE ("session_id", "ref", "number"));

CREATE TABLE "sessions_app_memoryentry" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "realm" text NOT NULL, "app_name" text NOT NULL, "user_id" text NOT NULL, "session_id" text NOT NULL, "entry_id" text NOT NULL, "removed" bool NOT NULL, "author" text NOT NULL, "timestamp" real NOT NULL, "told_time" text NOT NULL, "content" text NOT NULL, "private" text NULL, "custom_metadata" text NOT NULL, "words" text NULL, CONSTRAINT "memory_identity" UNIQUE ("realm", "app_name", "user_id", "session_id", "entry_id"));

CREATE TABLE "sessions_app_mirroredsession" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL UNIQUE REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "place" text NOT NULL, "behind" text NOT NULL);

CREATE TABLE "sessions_app_modelcall" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "ref" varchar(32) NOT NULL, "invocation_id" text NOT NULL, "number" integer NOT NULL, "agent" text NOT NULL, "branch" text NOT NULL, "model" text NOT NULL, "event_id" text NOT NULL, "event_ids" text NOT NULL, "started_at" real NOT NULL, "first_at" real NULL, "finished_at" real NULL, "request" text NOT NULL, "response" text NULL, "chunks" integer NOT NULL, "prompt_tokens" integer NOT NULL, "output_tokens" integer NOT NULL, "thought_tokens" integer NOT NULL, "cached_tokens" integer NOT NULL, "total_tokens" integer NOT NULL, "by_callback" bool NOT NULL, "error_type" text NOT NULL, "error" text NOT NULL, CONSTRAINT "model_call_identity" UNIQUE ("session_id", "ref"));

CREATE TABLE "sessions_app_modelpiece" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "sha" varchar(32) NOT NULL, "body" text NOT NULL, CONSTRAINT "model_piece_identity" UNIQUE ("session_id", "sha"));

CREATE TABLE "sessions_app_personusage" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "person" text NOT NULL, "day" integer NOT NULL, "app_name" text NOT NULL, "runs" integer NOT NULL, "tokens" bigint NOT NULL, "cost" real NOT NULL, CONSTRAINT "usage_of_person_and_day" UNIQUE ("person", "day", "app_name"));

CREATE TABLE "sessions_app_runtimeprocess" ("id" varchar(32) NOT NULL PRIMARY KEY, "app_name" text NOT NULL, "host" text NOT NULL, "pid" integer NOT NULL, "pid_started_at" real NOT NULL, "pid_identity" text DEFAULT '' NOT NULL, "code_version" varchar(64) NOT NULL, "server_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "started_at" real NOT NULL, "heartbeat_at" real NOT NULL, "stopped_at" real NULL);

CREATE TABLE "sessions_app_savedview" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(64) NOT NULL UNIQUE, "query" text NOT NULL, "created_at" real NOT NULL, "updated_at" real NOT NULL);

CREATE TABLE "sessions_app_sessionstate" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" text NOT NULL, "key_id" varchar(255) NOT NULL, "value" text NOT NULL, "private" text NULL, "note" varchar(32) NOT NULL, "position" bigint NOT NULL, "owner_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "session_state_key" UNIQUE ("owner_id", "key_id"));

CREATE TABLE "sessions_app_sessiontag" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "name" varchar(64) NOT NULL, "person" text DEFAULT '' NOT NULL, CONSTRAINT "session_tag_identity" UNIQUE ("session_id", "name"));

CREATE TABLE "sessions_app_sessiontrait" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "name" varchar(8) NOT NULL, "value" varchar(200) NOT NULL, "seq" bigint NOT NULL, CONSTRAINT "trait_of_session" UNIQUE ("session_id", "name", "value"));

CREATE TABLE "sessions_app_sessionusage" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "model" text NOT NULL, "day" integer NOT NULL, "calls" bigint NOT NULL, "unclear" bigint NOT NULL, "prompt" bigint NOT NULL, "output" bigint NOT NULL, "thoughts" bigint NOT NULL, "cached" bigint NOT NULL, "total" bigint NOT NULL, CONSTRAINT "usage_identity" UNIQUE ("session_id", "model", "day"));

CREATE TABLE "sessions_app_sessionwords" ("id" bigint NOT NULL PRIMARY KEY, "words" text NULL);

CREATE TABLE "sessions_app_statechange" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "scope" varchar(8) NOT NULL, "owner_id" bigint NOT NULL, "key" text NOT NULL, "key_id" varchar(255) NOT NULL, "position" bigint NOT NULL, "value" text NULL, "private" text NULL, "note" varchar(32) NOT NULL, "removed" bool NOT NULL, "cause" varchar(8) NOT NULL, "timestamp" real NOT NULL, "session_id" bigint NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "from_user" text NOT NULL, "from_session" text NOT NULL, "seq" bigint NOT NULL, "event_id" text NOT NULL, "invocation_id" text NOT NULL, "author" text NOT NULL, "writer" varchar(16) NOT NULL, "writer_name" text NOT NULL, "call_id" text NOT NULL, "inferred" bool NOT NULL);

CREATE TABLE "sessions_app_statevalue" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "scope" varchar(8) NOT NULL, "key_id" varchar(255) NOT NULL, "mark" text NOT NULL, "owner_id" bigint NOT NULL, CONSTRAINT "value_of_owner" UNIQUE ("scope", "key_id", "mark", "owner_id"));

CREATE TABLE "sessions_app_tempwrite" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "seq" bigint NOT NULL, "invocation_id" text NOT NULL, "key" text NOT NULL, "value" text NOT NULL, "note" varchar(32) NOT NULL, "author" text NOT NULL, "writer" varchar(16) NOT NULL, "writer_name" text NOT NULL, "call_id" text NOT NULL);

CREATE TABLE "sessions_app_trendbucket" ("key" varchar(32) NOT NULL PRIMARY KEY, "measure" varchar(10) NOT NULL, "dimension" varchar(6) NOT NULL, "hourly" bool NOT NULL, "start" bigint NOT NULL, "app_name" text NOT NULL, "value" text NOT NULL, "sample" smallint NOT NULL, "name" text NOT NULL, "label" text NOT NULL, "first_at" real NOT NULL, "count" bigint NOT NULL, "errors" bigint NOT NULL, "latency" text NOT NULL, "first_token" text NOT NULL, "prompt_tokens" bigint NOT NULL, "cached_tokens" bigint NOT NULL, "output_tokens" bigint NOT NULL, "thought_tokens" bigint NOT NULL);

CREATE TABLE "sessions_app_untrackedkey" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "seq" bigint NOT NULL, "invocation_id" text NOT NULL, "scope" varchar(8) NOT NULL, "key" text NOT NULL, "value" text NULL, "stored" text NULL, "note" varchar(32) NOT NULL, "noticed_at" real NOT NULL);

CREATE TABLE "sessions_app_userscope" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "realm" text NOT NULL, "app_name" text NOT NULL, "user_id" text NOT NULL, "version" bigint NOT NULL, CONSTRAINT "user_scope_identity" UNIQUE ("realm", "app_name", "user_id"));

CREATE TABLE "sessions_app_userstate" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" text NOT NULL, "key_id" varchar(255) NOT NULL, "value" text NOT NULL, "private" text NULL, "note" varchar(32) NOT NULL, "position" bigint NOT NULL, "owner_id" bigint NOT NULL REFERENCES "sessions_app_userscope" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "user_state_key" UNIQUE ("owner_id", "key_id"));

CREATE INDEX "sessions_app_agentsession_forked_from_id_0b12d39f" ON "sessions_app_agentsession" ("forked_from_id");

CREATE INDEX "session_pinned" ON "sessions_app_agentsession" ("realm", "pinned_at" DESC, "id" DESC) WHERE "pinned_at" IS NOT NULL;

CREATE INDEX "session_newest" ON "sessions_app_agentsession" ("realm", "updated_at" DESC, "id" DESC);

CREATE INDEX "session_newest_of_app" ON "sessions_app_agentsession" ("realm", "app_name", "updated_at" DESC, "id" DESC);

CREATE INDEX "session_unindexed" ON "sessions_app_agentsession" ("id") WHERE "last_seq" > ("indexed_seq");

CREATE INDEX "session_unchecked" ON "sessions_app_agentsession" ("id") WHERE "last_seq" > ("problems_seq");

CREATE INDEX "session_with_problems" ON "sessions_app_agentsession" ("realm", "updated_at" DESC, "id" DESC) WHERE "problem_count" > 0;

CREATE INDEX "session_with_errors" ON "sessions_app_agentsession" ("realm", "updated_at" DESC, "id" DESC) WHERE "error_count" > 0;

CREATE INDEX "session_by_id" ON "sessions_app_agentsession" ("session_id");

CREATE INDEX "artifact_content" ON "sessions_app_artifact" ("sha256");

CREATE INDEX "artifact_newest" ON "sessions_app_artifact" ("realm", "created_at" DESC, "id" DESC);

CREATE INDEX "artifact_newest_of_app" ON "sessions_app_artifact" ("realm", "app_name", "created_at" DESC, "id" DESC);

CREATE INDEX "deleted_together" ON "sessions_app_deletedsession" ("batch");

CREATE INDEX "deleted_when" ON "sessions_app_deletedsession" ("deleted_at");

CREATE INDEX "event_invocation" ON "sessions_app_event" ("session_id", "invocation_id", "seq");

CREATE INDEX "event_of_kind" ON "sessions_app_event" ("session_id", "kind", "seq");

CREATE INDEX "event_touching" ON "sessions_app_event" ("session_id", "seq") WHERE ("kind" || '' = 'control' AND (instr("summary", '"rewindBeforeInvocationId"') > 0 OR instr("summary", '"compaction"') > 0));

CREATE INDEX "event_error" ON "sessions_app_event" ("session_id", "seq") WHERE ("kind" || '' = 'error' OR ("kind" || '' IN ('tool_call', 'tool_result') AND instr("summary", '"failed":true') > 0));

CREATE VIRTUAL TABLE "event_words" USING fts5(owner, words, tokenize = 'ascii');

CREATE INDEX "sessions_app_importedscope_source_id_8828dee0" ON "sessions_app_importedscope" ("source_id");

CREATE INDEX "sessions_app_importedsession_source_id_fdf6995e" ON "sessions_app_importedsession" ("source_id");

CREATE INDEX "log_of_invocation" ON "sessions_app_logrecord" ("session_id", "invocation_id", "id");

CREATE INDEX "log_of_session" ON "sessions_app_logrecord" ("session_id", "id");

CREATE VIRTUAL TABLE "memory_words" USING fts5(owner, words, tokenize = 'ascii');

CREATE INDEX "memory_removed" ON "sessions_app_memoryentry" ("realm", "app_name", "user_id") WHERE "removed";

CREATE INDEX "memory_newest" ON "sessions_app_memoryentry" ("realm", "timestamp" DESC, "id" DESC) WHERE NOT "removed";

CREATE INDEX "memory_newest_of_user" ON "sessions_app_memoryentry" ("realm", "app_name", "user_id", "timestamp" DESC, "id" DESC) WHERE NOT "removed";

CREATE INDEX "call_of_invocation" ON "sessions_app_modelcall" ("session_id", "invocation_id", "number");

CREATE INDEX "call_of_event" ON "sessions_app_modelcall" ("session_id", "event_id");

CREATE INDEX "call_of_agent" ON "sessions_app_modelcall" ("session_id", "agent", "id");

CREATE INDEX "call_failed" ON "sessions_app_modelcall" ("session_id", "invocation_id") WHERE "error_type" > '';

CREATE INDEX "sessions_app_runtimeprocess_server_id_37e47544" ON "sessions_app_runtimeprocess" ("server_id");

CREATE INDEX "sessions_with_key" ON "sessions_app_sessionstate" ("key_id", "owner_id");

CREATE INDEX "session_by_tag" ON "sessions_app_sessiontag" ("name", "session_id");

CREATE INDEX "sessions_by_trait" ON "sessions_app_sessiontrait" ("name", "value", "session_id");

CREATE INDEX "session_words" ON "sessions_app_sessionwords" ("words");

CREATE INDEX "change_of_key" ON "sessions_app_statechange" ("scope", "owner_id", "key_id", "position");

CREATE INDEX "change_of_event" ON "sessions_app_statechange" ("session_id", "seq");

CREATE INDEX "values_of_owner" ON "sessions_app_statevalue" ("scope", "owner_id");

CREATE INDEX "temp_of_invocation" ON "sessions_app_tempwrite" ("session_id", "invocation_id", "seq");

CREATE INDEX "trend_groups" ON "sessions_app_trendbucket" ("measure", "dimension", "hourly", "app_name", "start", "value", "count");

CREATE INDEX "untracked_of_invocation" ON "sessions_app_untrackedkey" ("session_id", "invocation_id");

CREATE TABLE "sessions_app_nestedrun" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "caller_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "caller_seq" bigint NULL, "outer_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "outer_seq" bigint NULL, "child_id" bigint NOT NULL UNIQUE REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "invocation_id" text NOT NULL, "call_id" text NOT NULL, "agent" text NOT NULL, "started_at" real NOT NULL, "finished_at" real NULL, "changed_at" real NOT NULL, "error" text NOT NULL, "state_omitted" integer NOT NULL, "event_count" integer NOT NULL, "stored_count" integer NOT NULL, "indexed_count" integer DEFAULT 0 NOT NULL);

CREATE INDEX "nested_run_by_event" ON "sessions_app_nestedrun" ("caller_id", "caller_seq");

CREATE INDEX "nested_run_by_outer_event" ON "sessions_app_nestedrun" ("outer_id", "outer_seq");

CREATE INDEX "nested_run_by_change" ON "sessions_app_nestedrun" ("outer_id", "changed_at");

CREATE INDEX "nested_run_to_index" ON "sessions_app_nestedrun" ("id") WHERE ("finished_at" IS NOT NULL AND "outer_seq" IS NOT NULL AND "stored_count" > ("indexed_count"));

CREATE INDEX "session_by_user" ON "sessions_app_agentsession" ("realm", "user_id", "id" DESC);

CREATE INDEX "session_by_events" ON "sessions_app_agentsession" ("realm", "last_seq", "id");

CREATE INDEX "session_by_tokens" ON "sessions_app_agentsession" ("realm", "total_tokens", "id");

CREATE INDEX "session_by_problems" ON "sessions_app_agentsession" ("realm", "problem_count", "id");

CREATE INDEX "session_by_duration" ON "sessions_app_agentsession" ("realm", (("updated_at" - "created_at")), "id");

CREATE INDEX "artifact_by_size" ON "sessions_app_artifact" ("realm", "size", "id");

CREATE TABLE "sessions_app_sessionproblem" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "code" varchar(64) NOT NULL, "severity" varchar(8) NOT NULL, "invocation_id" text NOT NULL, "seq" bigint NOT NULL, "agent" text NOT NULL, "text" text NOT NULL, "links" text NOT NULL, "more" integer NOT NULL, "scope" varchar(10) DEFAULT 'invocation' NOT NULL, "key" text DEFAULT '' NOT NULL);

CREATE INDEX "problem_of_event" ON "sessions_app_sessionproblem" ("session_id", "seq", "id");

CREATE INDEX "problem_of_invocation" ON "sessions_app_sessionproblem" ("session_id", "invocation_id");

CREATE TABLE "sessions_app_eventjudgement" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "seq" bigint NOT NULL, "verdict" varchar(9) NOT NULL, "note" text NOT NULL, "person" text NOT NULL, "judged_at" real NOT NULL, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "judgement_of_event" UNIQUE ("session_id", "seq"));

CREATE INDEX "judgement_newest" ON "sessions_app_eventjudgement" ("session_id", "judged_at");

CREATE INDEX "session_by_judgement" ON "sessions_app_eventjudgement" ("verdict", "session_id");

CREATE TABLE "sessions_app_trace" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "invocation_id" text NOT NULL, "trace_id" varchar(32) NOT NULL, "root_agent" text NOT NULL, "started_at" real NOT NULL, "finished_at" real NULL, "stages" text NOT NULL, "counted_until" real DEFAULT 0.0 NOT NULL, "own_status" varchar(16) DEFAULT '' NOT NULL, CONSTRAINT "trace_of_invocation" UNIQUE ("session_id", "invocation_id"));

CREATE INDEX "trace_newest" ON "sessions_app_trace" ("started_at" DESC, "id" DESC);

CREATE INDEX "trace_uncounted" ON "sessions_app_trace" ("id") WHERE "finished_at" > ("counted_until");

CREATE INDEX "own_trace_newest" ON "sessions_app_trace" ("started_at" DESC, "id" DESC) WHERE "own_status" > '';

CREATE INDEX "own_trace_by_duration" ON "sessions_app_trace" ((coalesce(("finished_at" - "started_at"), 0.0)), "id") WHERE "own_status" > '';

CREATE TABLE "sessions_app_span" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "invocation_id" text NOT NULL, "trace_id" varchar(32) NOT NULL, "span_id" varchar(16) NOT NULL, "parent_id" varchar(16) NOT NULL, "name" text NOT NULL, "kind" varchar(12) NOT NULL, "started_ns" bigint NOT NULL, "ended_ns" bigint NOT NULL, "failed" bool NOT NULL, "message" text NOT NULL, "event_id" text NOT NULL, "attributes" text NOT NULL, "events" text DEFAULT '[]' NOT NULL, "links" text DEFAULT '[]' NOT NULL, "source" text DEFAULT '{}' NOT NULL);

CREATE INDEX "span_of_invocation" ON "sessions_app_span" ("session_id", "invocation_id", "started_ns");

CREATE INDEX "span_by_event" ON "sessions_app_span" ("event_id");

CREATE INDEX "span_identity" ON "sessions_app_span" ("trace_id", "span_id");

CREATE INDEX "trace_by_trace_id" ON "sessions_app_trace" ("trace_id") WHERE NOT ("trace_id" = '');

CREATE TABLE "sessions_app_runpause" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "agent" text NOT NULL, "target" text NOT NULL, "content" text NOT NULL, "created_at" real NOT NULL, "expires_at" real NOT NULL, "decision" text DEFAULT '' NOT NULL, "decided_by" text DEFAULT '' NOT NULL, "run_id" varchar(32) NOT NULL REFERENCES "sessions_app_run" ("id") DEFERRABLE INITIALLY DEFERRED, "kind" varchar(11) NOT NULL);

CREATE INDEX "sessions_app_runpause_run_id_c5cde44b" ON "sessions_app_runpause" ("run_id");

CREATE TABLE "sessions_app_run" ("id" varchar(32) NOT NULL PRIMARY KEY, "session_id" bigint NOT NULL REFERENCES "sessions_app_agentsession" ("id") DEFERRABLE INITIALLY DEFERRED, "runtime_id" varchar(32) NULL REFERENCES "sessions_app_runtimeprocess" ("id") DEFERRABLE INITIALLY DEFERRED, "status" varchar(16) NOT NULL, "request" text NOT NULL, "source" varchar(16) NOT NULL, "person" text DEFAULT '' NOT NULL, "invocation_id" text NOT NULL, "code_version" varchar(64) NOT NULL, "git_revision" text DEFAULT '' NOT NULL, "created_at" real NOT NULL, "started_at" real NULL, "finished_at" real NULL, "cancel_requested_at" real NULL, "first_seq" bigint NULL, "last_seq" bigint NULL, "error_type" text NOT NULL, "error" text NOT NULL, "traceback" text NOT NULL, "paused_s" real DEFAULT 0.0 NOT NULL, "paused_times" text DEFAULT '[]' NOT NULL);

CREATE INDEX "sessions_app_run_runtime_id_d775dc4b" ON "sessions_app_run" ("runtime_id");

CREATE INDEX "run_of_session" ON "sessions_app_run" ("session_id", "created_at");

CREATE INDEX "run_newest" ON "sessions_app_run" ("created_at" DESC, "id" DESC);

CREATE INDEX "run_by_status" ON "sessions_app_run" ("status", "created_at");

CREATE INDEX "run_by_error" ON "sessions_app_run" ("error_type", "created_at" DESC, "id" DESC) WHERE NOT ("error_type" = '');

CREATE INDEX "run_waiting" ON "sessions_app_run" ("session_id") WHERE "status" = 'waiting';

CREATE INDEX "run_of_invocation" ON "sessions_app_run" ("session_id", "invocation_id");

CREATE INDEX "run_by_duration" ON "sessions_app_run" ((coalesce((("finished_at" - "started_at") - "paused_s"), 0.0)), "id");

INSERT INTO django_migrations (app, name, applied) VALUES
('sessions_app', '0001_initial', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0002_lineage_and_app_settings', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0003_untracked_keys', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0004_titles_tags_and_views', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0005_mirrored_sessions', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0006_search_indexes', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0007_branches_are_traits', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0008_rows_of_a_session_by_one_index', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0009_events_that_touch_others', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0010_events_are_found_by_their_ids', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0011_what_runs_looked_like_from_inside', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0012_runs_that_wait', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0013_files_and_memory_by_time', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0014_spans_by_event', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0015_which_code_ran', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0016_sets_of_sessions', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0017_queued_runs_wait_for_the_next_server', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0018_failed_model_calls_are_found_at_once', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0019_failed_tool_results_count_as_errors', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0020_processes_have_an_identity', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0021_kind_without_choices', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0022_start_time_of_processes_is_not_used', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0023_plain_help_texts', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0024_problems_of_sessions', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0025_nested_runs_logs_and_problems', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0026_trends', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0027_usage_of_sessions', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0028_index_of_trends', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0029_persons', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0030_usage_of_persons', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0002_nested_sessions', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0003_sorted_lists', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0004_problems_of_state', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0005_run_duration', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0006_judgements', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0007_run_pauses', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0008_list_of_runs', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0009_span_details', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0010_pause_outcomes', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0011_run_pause_times', strftime('%Y-%m-%d %H:%M:%f', 'now')),
('sessions_app', '0001_schema', strftime('%Y-%m-%d %H:%M:%f', 'now'));
