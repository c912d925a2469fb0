from google.adk.agents import LlmAgent

from tests.fake_models import LiveModel, call


class Echo(LiveModel):
    """Says again what it hears, and of sound its type; `count` calls a tool, `break` breaks the connection."""

    turns: list = []

    def next_turn(self, text: str):
        if text == "break":
            raise RuntimeError("The line is broken.")
        return (
            call("count", words="one two")
            if text == "count"
            else f"You said: {text or 'a tool has answered'}"
        )


def count(words: str) -> int:
    """Count words."""
    return len(words.split())


root_agent = LlmAgent(name="speaker", model=Echo(), tools=[count])
