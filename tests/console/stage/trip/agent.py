from google.adk.events import RequestInput
from google.adk.workflow import START, Workflow

RUN_CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def ask():
    """Ask where to go."""
    yield RequestInput(
        message="Where to?", response_schema=RUN_CONFIG_SCHEMA, payload={"offer": "a week off"}
    )


def tell(node_input: dict) -> str:
    """Say what was answered."""
    return f"{node_input['days']} days in {node_input['city']}"


root_agent = Workflow(name="trip", edges=[(START, ask, tell)])
