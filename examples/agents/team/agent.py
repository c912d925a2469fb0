"""A team that writes reports: transfer, sequence, parallel branches, and a loop that ends by escalation.

coordinator ──transfer──► report_pipeline (sequence)
     │                      1. planner
     │                      2. research (parallel): historian, analyst
     │                      3. review (loop): drafter, critic; ends when the critic escalates
     │                      4. publisher
     └────────transfer──► translator
"""

import warnings

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.context_cache_config import ContextCacheConfig
from google.adk.apps import App
from google.adk.tools.exit_loop_tool import exit_loop
from scripted_model import Reply, Rule, ScriptedLlm, Turn, call

from .checkpoint import STEP, continue_report, start_report

LIBRARY = {
    "tea": {"history": "Tea was first drunk in China", "number": "3 billion cups a day"},
    "bread": {"history": "Bread was baked in Egypt by 3000 BC", "number": "100 million tonnes a year"},
    "chess": {"history": "Chess came from India in the 6th century", "number": "600 million players"},
}
UNKNOWN = {"history": "Its history is not in the library", "number": "no reliable figures"}

PHRASES = {
    ("good morning", "german"): "Guten Morgen",
    ("good morning", "japanese"): "おはようございます",
    ("thank you", "french"): "Merci",
    ("thank you", "korean"): "감사합니다",
}


def look_up(topic: str, shelf: str) -> dict[str, str]:
    """Look a topic up on the library's shelf `history` or `number`."""
    return {"found": LIBRARY.get(topic.lower(), UNKNOWN)[shelf]}


def plan(turn: Turn) -> Reply:
    """Return three points on one line, so that they fit into an instruction."""
    return f"1. The history of {turn.facts['topic']}. 2. The figures. 3. The outlook."


def draft(turn: Turn) -> Reply:
    """Return the history alone at first, then with the figure that the critic has requested."""
    figure = " Today there are {number}." if turn.facts["feedback"] else ""
    return ("{history}." + figure).format(**turn.facts)


def criticise(turn: Turn) -> Reply:
    """End the loop if the draft contains the figure."""
    return call("exit_loop") if turn.facts["number"] in turn.facts["draft"] else "Add a figure."


def publish(turn: Turn) -> Reply:
    """Return the draft under its title."""
    return f"# {turn.facts['topic'].capitalize()}\n\n{turn.facts['draft']}"


def translate(turn: Turn) -> Reply:
    """Return a phrase from the book, or say that it is missing."""
    phrase, language = turn["phrase"].lower(), turn["language"].lower()
    return PHRASES.get((phrase, language), f"I cannot say '{phrase}' in {language} yet.")


def transfer(agent: str) -> Reply:
    """Hand the conversation to another agent."""
    return call("transfer_to_agent", agent_name=agent)


def researcher(name: str, shelf: str) -> LlmAgent:
    """Return an agent that looks one thing up and stores it in the state under the shelf's name."""
    rules = [
        Rule(after="look_up", reply=lambda turn: str(turn.result["found"])),
        Rule(reply=lambda turn: call("look_up", topic=turn.facts["topic"], shelf=shelf)),
    ]
    return LlmAgent(
        name=name,
        model=ScriptedLlm(rules=rules),
        instruction="Look the topic up.\n\ntopic: {topic}",
        tools=[look_up],
        output_key=shelf,
    )


planner = LlmAgent(
    name="planner",
    model=ScriptedLlm(rules=[Rule(reply=plan)]),
    instruction="Plan a report in three points.\n\ntopic: {topic}",
    output_key="plan",
    **STEP,
)
drafter = LlmAgent(
    name="drafter",
    model=ScriptedLlm(rules=[Rule(reply=draft)]),
    instruction="Write the report.\n\nhistory: {history}\nnumber: {number}\nfeedback: {feedback?}",
    output_key="draft",
)
critic = LlmAgent(
    name="critic",
    model=ScriptedLlm(rules=[Rule(reply=criticise)]),
    instruction="Ask for what is missing; end the loop when nothing is.\n\nnumber: {number}\ndraft: {draft}",
    tools=[exit_loop],
    output_key="feedback",
)
publisher = LlmAgent(
    name="publisher",
    model=ScriptedLlm(rules=[Rule(reply=publish)]),
    instruction="Publish the draft.\n\ntopic: {topic}\ndraft: {draft}",
    output_key="report",
    **STEP,
)
translator = LlmAgent(
    name="translator",
    description="Translates a phrase.",
    model=ScriptedLlm(
        rules=[
            Rule(r"translate '?(?P<phrase>[\w ]+?)'? (in)?to (?P<language>\w+)", translate),
            Rule(reply=lambda turn: transfer("coordinator")),
        ]
    ),
    instruction="Translate what the user asks for; hand everything else back.",
)

with warnings.catch_warnings():
    # ADK 2.13 deprecates these three for Workflow, which "cannot yet be used as an LlmAgent sub-agent".
    warnings.simplefilter("ignore", DeprecationWarning)
    researchers: list[BaseAgent] = [researcher("historian", "history"), researcher("analyst", "number")]
    research = ParallelAgent(name="research", sub_agents=researchers, **STEP)
    review = LoopAgent(name="review", sub_agents=[drafter, critic], max_iterations=3, **STEP)
    report_pipeline = SequentialAgent(
        name="report_pipeline",
        description="Plans, researches, reviews and publishes a report.",
        sub_agents=[planner, research, review, publisher],
    )

REPORT = r"report (on|about) (?P<topic>\w+)(?P<pause>.*only the plan)?"


def begin(turn: Turn) -> Reply:
    """Open the requested report."""
    stop_after = "planner" if turn["pause"] else ""
    return call("start_report", topic=turn["topic"], stop_after=stop_after)


def resume(turn: Turn) -> Reply:
    """Continue the report, if there is one."""
    return str(turn.result["error"]) if "error" in turn.result else transfer("report_pipeline")


root_agent = LlmAgent(
    name="coordinator",
    description="Hands each request to the agent that can do it.",
    model=ScriptedLlm(
        rules=[
            Rule(after="start_report", reply=lambda turn: transfer("report_pipeline")),
            Rule(after="continue_report", reply=resume),
            Rule(REPORT, begin),
            Rule(r"\bcontinue\b", lambda turn: call("continue_report")),
            Rule(r"\btranslate\b", lambda turn: transfer("translator")),
            Rule(reply="I can write a report on a topic, or translate a phrase."),
        ]
    ),
    instruction="Hand reports to report_pipeline and translations to translator.",
    tools=[start_report, continue_report],
    sub_agents=[report_pipeline, translator],
)

app = App(name="team", root_agent=root_agent, context_cache_config=ContextCacheConfig())
