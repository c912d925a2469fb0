"""A new agent's folder. Pure, apart from `create_agent`."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

from sessions_app.store.errors import AlreadyExists, BadInput

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
"""Names that ADK's loader imports and that are names of agents, too (`google/adk/apps/app.py`, `validate_app_name`)."""

RESERVED = "user"
"""Name of the author of messages of people."""

FILES = {
    "__init__.py": '"""{name}."""\n\nfrom . import agent as agent\n',
    "agent.py": '''"""The agent {name}."""

from google.adk.agents import LlmAgent

root_agent = LlmAgent(
    name="{name}",
    description="Answers questions.",
    instruction="Answer the questions of the user.",
)
''',
    ".env": """\
# Credentials of the model. Do not commit this file.
# Gemini API: create a key at https://aistudio.google.com/apikey
# GOOGLE_API_KEY=
# Or Vertex AI:
# GOOGLE_GENAI_USE_VERTEXAI=1
# GOOGLE_CLOUD_PROJECT=
# GOOGLE_CLOUD_LOCATION=
""",
    ".gitignore": ".env\n",
}
"""Files by name. The agent names no model: ADK's default is used, or that of `--default_llm_model`."""


def create_agent(folder: Path) -> None:
    """Create the folder of an agent that has the name of the folder.

    Raises:
        AlreadyExists: there is such a folder or file.
        BadInput: ADK cannot load an agent of this name, or the folder cannot be written.
    """
    name = folder.name
    if not NAME.fullmatch(name) or name == RESERVED or keyword.iskeyword(name):
        raise BadInput(
            f"{name!r} is not a name for an agent.",
            hint=f"Use letters, digits and underscores, a letter first; {RESERVED!r} means people.",
        )
    if name in sys.stdlib_module_names:
        raise BadInput(
            f"{name!r} is a module of Python, which the agent would hide.", hint="Choose another name."
        )
    try:
        folder.mkdir(parents=True)
        for file, text in FILES.items():
            (folder / file).write_text(text.format(name=name), encoding="utf-8")
    except FileExistsError as error:
        raise AlreadyExists(f"{str(folder)!r} exists already.", hint="Choose another name.") from error
    except OSError as error:
        raise BadInput(
            f"{str(folder)!r} cannot be written: {error.strerror}.", hint="Choose another folder."
        ) from error
