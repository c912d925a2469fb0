"""A weather desk that shows who sees which state.

| key | scope | written by |
|---|---|---|
| `count`, `recent_cities`, `last_city` | this session | the tool `get_weather` |
| `last_answer` | this session | `output_key` |
| `tokens` | this session | the callback `count_tokens` |
| `user:name`, `user:units`, `user:n`, `user:cities`, `user:last_city` | this user, in every session | tools |
| `app:requests` | everyone | the tool `get_weather` |
| `temp:raw` | this invocation only | `get_weather`, read by `packing_advice` |
"""

import offline_judge
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from scripted_model import Reply, Rule, ScriptedLlm, Turn, call

offline_judge.register()  # so that its evalsets can be judged, and its users played, without a network

STATIONS = {
    "paris": ("sunny", 24),
    "rome": ("clear", 27),
    "oslo": ("snowy", -3),
    "lima": ("foggy", 16),
    "cairo": ("dry", 36),
    "london": ("rainy", 14),
    "東京": ("rainy", 18),
}
RECENT = 5

INSTRUCTION = """\
You are a weather desk. Look every city up; never guess.

user name: {user:name?}
last city: {last_city?}
lookups: {user:n?}
"""


def get_weather(city: str, tool_context: ToolContext) -> dict[str, object]:
    """Look up the current weather of a city."""
    state = tool_context.state
    state["count"] = state.get("count", 0) + 1
    state["app:requests"] = state.get("app:requests", 0) + 1
    if city.lower() not in STATIONS:
        return {"status": "error", "message": f"No weather station in {city}."}

    sky, celsius = STATIONS[city.lower()]
    state["last_city"] = state["user:last_city"] = city
    state["recent_cities"] = [*state.get("recent_cities", []), city][-RECENT:]
    state["user:n"] = state.get("user:n", 0) + 1
    state["user:cities"] = sorted({*state.get("user:cities", []), city})
    state["temp:raw"] = {"city": city, "sky": sky, "celsius": celsius}

    if state.get("user:units", "").lower() == "fahrenheit":
        return {"status": "ok", "city": city, "sky": sky, "degrees": f"{celsius * 9 / 5 + 32:.0f} °F"}
    return {"status": "ok", "city": city, "sky": sky, "degrees": f"{celsius} °C"}


def packing_advice(tool_context: ToolContext) -> dict[str, str]:
    """Say what to pack for the city just looked up."""
    raw = tool_context.state["temp:raw"]  # of this invocation: gone when it ends
    if raw["sky"] in ("rainy", "snowy"):
        return {"pack": "boots and a waterproof coat"}
    return {"pack": "a light jacket" if raw["celsius"] < 20 else "sunglasses"}


def update_profile(tool_context: ToolContext, name: str = "", units: str = "") -> dict[str, str]:
    """Remember the user's name or preferred units for all their sessions."""
    changes = {key: value for key, value in (("name", name), ("units", units)) if value}
    for key, value in changes.items():
        tool_context.state[f"user:{key}"] = value
    return changes


def inherit_context(callback_context: CallbackContext) -> None:
    """Start a new session where this user's last one ended."""
    state = callback_context.state
    if "last_city" not in state and "user:last_city" in state:
        state["last_city"] = state["user:last_city"]


def count_tokens(callback_context: CallbackContext, llm_response: LlmResponse) -> None:
    """Add up the tokens that this session has used."""
    usage = llm_response.usage_metadata
    if usage is not None:
        state = callback_context.state
        state["tokens"] = state.get("tokens", 0) + (usage.total_token_count or 0)


def report(turn: Turn) -> Reply:
    """Put each lookup in one sentence."""
    responses = [result.response or {} for result in turn.results if result.name == "get_weather"]
    return " ".join(
        "It is {sky} in {city}, {degrees}.".format(**reading)
        if reading["status"] == "ok"
        else f"I could not find out: {reading['message']}"
        for reading in responses
    )


def advise(turn: Turn) -> Reply:
    """Ask for advice once the weather is known."""
    return call("packing_advice") if turn.result["status"] == "ok" else report(turn)


def greet(turn: Turn) -> Reply:
    """Greet by name, and continue where the last session ended."""
    name, city = turn.facts["user name"], turn.facts["last city"]
    hello = f"Hello {name}!" if name else "Hello! Tell me your name and I will remember it."
    return f"{hello} Last time you asked about {city}." if city else hello


def look_up(*cities: str) -> Reply:
    """Call the tool for all cities at once."""
    return [call("get_weather", city=city) for city in cities if city] or "Which city?"


RULES = [
    Rule(r"\b(pack|wear)\b", after="get_weather", reply=advise),
    Rule(after="get_weather", reply=report),
    Rule(after="packing_advice", reply=lambda turn: f"{report(turn)} Pack {turn.result['pack']}."),
    Rule(r"fahrenheit", after="update_profile", reply="Noted: Fahrenheit from now on."),
    Rule(r"celsius", after="update_profile", reply="Noted: Celsius from now on."),
    Rule(after="update_profile", reply=lambda turn: f"Nice to meet you, {turn.result['name']}."),
    Rule(r"compare (?P<a>\w+) (and|with) (?P<b>\w+)", lambda turn: look_up(turn["a"], turn["b"])),
    Rule(r"(weather|forecast|pack|wear)\b.*\b(in|for) (?P<city>\w+)", lambda turn: look_up(turn["city"])),
    Rule(r"(?P<city>\w+)の天気", lambda turn: look_up(turn["city"])),
    Rule(r"\b(there|again)\b", lambda turn: look_up(turn.facts["last city"])),
    Rule(r"my name is (?P<name>\w+)", lambda turn: call("update_profile", name=turn["name"])),
    Rule(r"(?P<units>fahrenheit|celsius)", lambda turn: call("update_profile", units=turn["units"])),
    Rule(r"how many", lambda turn: f"Reports: {turn.facts['lookups'] or 0}."),
    Rule(r"\b(hello|hi|hey)\b|こんにちは", greet),
    Rule(reply="I only know the weather. Try: What is the weather in Paris?"),
]

root_agent = LlmAgent(
    name="weather",
    description="Reports the weather and remembers who asked.",
    model=ScriptedLlm(rules=RULES),
    instruction=INSTRUCTION,
    tools=[get_weather, packing_advice, update_profile],
    output_key="last_answer",
    before_agent_callback=inherit_context,
    after_model_callback=count_tokens,
)
