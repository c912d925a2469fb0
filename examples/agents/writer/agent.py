"""A writer that streams its thoughts, then Markdown, token by token.

Its instruction is a function (an `InstructionProvider`): ADK fills in no placeholders, the function reads
the state itself. `initial_state.json` seeds every new session; the App adds an instruction for all agents.
"""

import re
from collections.abc import Callable

from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.apps import App
from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from google.adk.tools.tool_context import ToolContext
from scripted_model import Reply, Rule, ScriptedLlm, Turn, call, think

from . import texts


def instruction(context: ReadonlyContext) -> str:
    """Return the instruction; called for every model call."""
    tone = context.state.get("tone", "plain")
    style = context.state.get("app:house_style", "as you like")
    return f"Write what the user asks for.\n\ntone: {tone}\nhouse style: {style}"


def set_tone(tone: str, tool_context: ToolContext) -> dict[str, str]:
    """Change the tone of this session."""
    before = tool_context.state.get("tone", "plain")
    tool_context.state["tone"] = tone
    return {"before": before, "now": tone}


def write(template: str, thought: str) -> Callable[[Turn], Reply]:
    """Return thoughts, then the template about the user's topic in the session's tone."""

    def reply(turn: Turn) -> Reply:
        topic = turn.words.get("topic") or "the sea"
        words = {"topic": topic, "name": re.sub(r"\W+", "_", topic.lower()), "tone": turn.facts["tone"]}
        return [think(thought.format(**words)), template.format(**words)]

    return reply


def shorten(turn: Turn) -> Reply:
    """Return the first full sentence of the last text."""
    first = re.search(r"^[A-Z][^.\n]*\.", turn.last_answer, re.MULTILINE)
    return [think("One sentence has to carry it."), first[0]] if first else "There is nothing to shorten."


ABOUT = r"\b(about|on|of|for) (?P<topic>[\w ]+)"

RULES = [
    Rule(after="set_tone", reply=lambda turn: "My tone was {before}; now it is {now}.".format(**turn.result)),
    Rule(r"be (more )?(?P<tone>playful|formal|plain)", lambda turn: call("set_tone", tone=turn["tone"])),
    Rule(r"shorter|one sentence", shorten),
    Rule(r"[ぁ-ヿ]", write(texts.JAPANESE, "日本語で、短く書こう。")),
    Rule(r"[가-힣]", write(texts.KOREAN, "한국어로 짧게 쓰자.")),
    Rule(r"[一-鿿]", write(texts.CHINESE, "用中文，写短一些。")),
    Rule(rf"essay.*{ABOUT}", write(texts.ESSAY, "Four parts on {topic}, each with one idea. Then stop.")),
    Rule(rf"table.*{ABOUT}", write(texts.TABLE, "Three rows say more about {topic} than three paragraphs.")),
    Rule(rf"code.*{ABOUT}", write(texts.CODE, "A counter of {topic}. Plain Python, typed, no imports.")),
    Rule(rf"write.*{ABOUT}", write(texts.ARTICLE, "A {tone} note on {topic}: what, why, what next.")),
    Rule(reply="Ask me to write about something: a note, an essay, a table or code."),
]

root_agent = LlmAgent(
    name="writer",
    description="Writes notes, essays, tables and code, in English, Japanese, Chinese and Korean.",
    model=ScriptedLlm(rules=RULES),
    instruction=instruction,
    tools=[set_tone],
    output_key="draft",
)

app = App(
    name="writer",
    root_agent=root_agent,
    plugins=[GlobalInstructionPlugin("Never invent a quotation.")],
)
