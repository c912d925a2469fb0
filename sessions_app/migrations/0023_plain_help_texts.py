"""Rewrite the help texts in plain words."""

from django.db import migrations

from sessions_app.store.help_texts import AlterHelpTexts


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0022_start_time_of_processes_is_not_used")]

    operations = [
        AlterHelpTexts(
            {
                "agentsession": {
                    "error_count": "Events that are errors or have a failed tool result.",
                    "first_text": "Start of the user's first message.",
                    "forked_from": "Null if that session was deleted.",
                    "forked_seq": "seq of the last copied event; null: no fork.",
                    "indexed_seq": "Events up to this seq are indexed; later ones are scanned.",
                    "lineage": "JSON: the origin of a fork; outlives that session.",
                    "pinned_at": "When it was pinned; null: not pinned.",
                    "title": "Set by a person; pages fall back to first_text.",
                    "updated_at": "ADK's last_update_time: time of the last event.",
                },
                "appstate": {
                    "note": "How the value was converted to JSON.",
                    "position": "seq (session) or version (user, app) of the write.",
                    "private": "JSON: the whole value if `value` omits parts.",
                },
                "artifact": {
                    "content": "The payload if it is small.",
                    "custom_metadata": "JSON of the agent; not redacted.",
                    "filename_id": "The filename, or its hash.",
                    "sha256": "Hash of the payload; empty: no payload.",
                    "size": "Bytes of the payload, of a text in UTF-8.",
                },
                "deletedsession": {
                    "batch": "Sessions of a batch are restored together.",
                    "realm": "Realm before the deletion.",
                },
                "event": {
                    "app_version": "Version of the app's state at the commit.",
                    "data": "JSON: the event as ADK's REST sends it, redacted.",
                    "private": "JSON: the whole event if `data` omits parts.",
                    "summary": "JSON: content of a timeline row. See `events.summarize`.",
                    "user_version": "Version of the user's state at the commit.",
                },
                "eventwords": {"id": "Made of session and seq. See `event_index.place`."},
                "importedsession": {
                    "is_settled": "All its events and state are imported.",
                    "last_seq": "seq of the last imported event.",
                },
                "importsource": {
                    "fingerprint": "Fingerprint when it was last read completely.",
                    "format": "Name of the detected format.",
                    "read_at": "When it was last read completely; null: never.",
                },
                "memoryentry": {
                    "custom_metadata": "JSON of the agent; not redacted.",
                    "entry_id": "Memory id of ADK: the event's id, or another.",
                    "private": "JSON: the whole content if `content` omits parts.",
                    "timestamp": "Time of the event; unknown: of the addition.",
                    "told_time": "The time as text that ADK was given, if any.",
                    "words": "Words for search. Written by `full_text` only.",
                },
                "mirroredsession": {"behind": "How the copy differs from the original; empty: not."},
                "modelcall": {
                    "by_callback": "A callback or plug-in answered instead.",
                    "chunks": "Number of partial responses.",
                    "event_id": "ADK id of the last event that it produced.",
                    "event_ids": "JSON: ids of all events that it produced.",
                    "finished_at": "Null: unfinished, or its process was killed.",
                    "first_at": "Time of the first chunk or the response.",
                    "number": "1, 2, 3 … within the invocation.",
                    "ref": "The recorder's id of the call.",
                    "request": "JSON: the request, redacted.",
                    "response": "JSON: the response; null: none.",
                },
                "modelpiece": {
                    "body": "JSON, redacted; long texts are truncated.",
                    "sha": "Hash of `body`. See `traces.pieces`.",
                },
                "runtimeprocess": {
                    "pid_identity": "See `processes.identity`.",
                    "server": "The server that started it, if any.",
                },
                "savedview": {"query": "Search parameters of the session list."},
                "sessionstate": {
                    "note": "How the value was converted to JSON.",
                    "position": "seq (session) or version (user, app) of the write.",
                    "private": "JSON: the whole value if `value` omits parts.",
                },
                "sessiontrait": {"value": "The first 200 characters."},
                "sessionwords": {
                    "id": "Made of session and seq of the first event.",
                    "words": "The words without positions.",
                },
                "span": {
                    "event_id": "ADK id of the event it produced, if known.",
                    "message": "The error message.",
                    "parent_id": "Hex; empty: no parent.",
                },
                "statechange": {"inferred": "The writer is inferred from the event."},
                "statevalue": {"mark": "Type and start of the value, sortable. See `json_sql.mark`."},
                "trace": {
                    "finished_at": "Null: unfinished, or its process was killed.",
                    "trace_id": "OpenTelemetry's id in hex, if any.",
                },
                "untrackedkey": {
                    "seq": "seq of the last event of the invocation.",
                    "stored": "JSON stored by events; null: no such key.",
                    "value": "JSON, redacted; null: the key was removed.",
                },
                "userstate": {
                    "note": "How the value was converted to JSON.",
                    "position": "seq (session) or version (user, app) of the write.",
                    "private": "JSON: the whole value if `value` omits parts.",
                },
            }
        )
    ]
