from pathlib import Path

from google.adk.apps import App
from google.adk.apps.app import ResumabilityConfig
from google.adk.workflow import START, Workflow

HERE = Path(__file__).parent


def note(step: str) -> str:
    """Note what was done, where a test reads it."""
    with (HERE / "diary").open("a") as diary:
        diary.write(f"{step}\n")
    return step


def pack() -> str:
    """The first step."""
    return note("packed")


def drive(node_input: str) -> str:
    """The second step, which fails as long as the road is closed."""
    if not (HERE / "road").exists():
        note("turned back")
        raise RuntimeError("The road is closed.")
    return note(f"drove, {node_input}")


def arrive(node_input: str) -> str:
    """The last step."""
    return note(f"arrived, {node_input}")


app = App(
    name="journey",
    root_agent=Workflow(name="journey", edges=[(START, pack, drive, arrive)]),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
