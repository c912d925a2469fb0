"""Evalset documents that tests start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def text(words: str, role: str = "user") -> Json:
    return {"role": role, "parts": [{"text": words}]}


def turn(words: str, answer: str | None = None, tools: list[Json] | None = None) -> Json:
    invocation: Json = {"user_content": text(words)}
    if answer is not None:
        invocation["final_response"] = text(answer, "model")
    if tools is not None:
        invocation["intermediate_data"] = {"tool_uses": tools}
    return invocation


def case(eval_id: str, *turns: Json, **more: Any) -> Json:
    return {"eval_id": eval_id, "conversation": list(turns), **more}


def evalset(*cases: Json, eval_set_id: str = "set") -> Json:
    return {"eval_set_id": eval_set_id, "eval_cases": list(cases)}


def write(folder: Path, name: str, document: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


FULL: Json = {
    "eval_set_id": "full",
    "name": "Full",
    "description": "Every field once, in both spellings.",
    "creation_timestamp": 1.0,
    "eval_cases": [
        {
            "evalId": "camel",
            "conversation": [
                {
                    "invocationId": "i",
                    "userContent": text("hi"),
                    "finalResponse": {
                        "role": "model",
                        "parts": [{"text": "yo"}, {"inlineData": {"data": "aGk=", "mimeType": "text/plain"}}],
                    },
                    "intermediateData": {
                        "toolUses": [{"id": "1", "name": "f", "args": {"x": 1}}],
                        "toolResponses": [{"name": "f", "response": {"y": 2}}],
                        "intermediateResponses": [["sub", [{"text": "x"}]]],
                    },
                    "creationTimestamp": 2,
                    "duration": 1.5,
                    "rubrics": [{"rubricId": "r", "rubricContent": {"textProperty": "t"}}],
                }
            ],
            "sessionInput": {"app_name": "w", "userId": "u", "state": {"k": 1}, "extra": 1},
            "rubrics": [{"rubric_id": "s", "rubric_content": {"text_property": "t"}, "type": "X"}],
            "finalSessionState": {"a": 1},
            "more": 2,
        },
        {
            "eval_id": "events",
            "conversation": [
                {
                    "user_content": {
                        "parts": [{"text": "x", "thought": True, "file_data": {"file_uri": "u"}}]
                    },
                    "intermediate_data": {
                        "invocation_events": [
                            {
                                "author": "z",
                                "content": {
                                    "parts": [
                                        {"function_call": {"name": "f"}},
                                        {"function_response": {"name": "f", "response": {}}},
                                    ]
                                },
                                "invocationIndex": 3,
                            }
                        ]
                    },
                    "app_details": {
                        "agent_details": {"a": {"name": "a", "instructions": "i", "tool_declarations": []}}
                    },
                }
            ],
        },
        {
            "eval_id": "scenario",
            "conversation_scenario": {
                "starting_prompt": "p",
                "conversation_plan": "q",
                "user_persona": "EXPERT",
            },
        },
        {
            "eval_id": "persona",
            "conversation_scenario": {
                "starting_prompt": "p",
                "conversation_plan": "q",
                "user_persona": {
                    "id": "i",
                    "description": "d",
                    "behaviors": [
                        {
                            "name": "n",
                            "description": "d",
                            "behavior_instructions": ["a"],
                            "violation_rubrics": ["b"],
                        }
                    ],
                },
            },
        },
    ],
}

LEGACY: list[Json] = [
    {
        "name": "old",
        "data": [
            {
                "query": "q",
                "reference": "r",
                "expected_tool_use": [{"tool_name": "t", "tool_input": {"a": 1}}],
                "expected_intermediate_agent_responses": [{"author": "a", "text": "t"}],
            }
        ],
        "initial_session": {"state": {"k": 1}, "app_name": "a", "user_id": "u"},
    }
]
