"""Descriptions of agents, as cards have them."""

AGENT_WITH_TOOL = {
    "name": "root",
    "type": "LlmAgent",
    "description": "Reports the weather.",
    "tools": [
        {
            "name": "get_weather",
            "type": "FunctionTool",
            "description": "Look up the weather.",
            "schema": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        }
    ],
    "sub_agents": [],
}
