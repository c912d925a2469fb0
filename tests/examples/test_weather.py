"""The weather agent: four scopes of state, and their visibility in other sessions."""

from __future__ import annotations

from tests.examples.conftest import Chats, calls, texts


async def test_writes_land_in_their_scope_and_temp_ends_with_the_run(chats: Chats) -> None:
    chat = await chats("weather")
    await chat.say("What is the weather in Paris?")
    state = await chat.state()
    assert state.pop("tokens") > 0
    assert state == {
        "count": 1,
        "last_city": "Paris",
        "recent_cities": ["Paris"],
        "last_answer": "It is sunny in Paris, 24 °C.",
        "user:n": 1,
        "user:cities": ["Paris"],
        "user:last_city": "Paris",
        "app:requests": 1,
    }


async def test_temp_value_reaches_next_tool_of_the_same_run(chats: Chats) -> None:
    chat = await chats("weather")
    events = await chat.say("What should I pack for Oslo?")
    assert calls(events) == [("get_weather", {"city": "Oslo"}), ("packing_advice", {})]
    assert texts(events) == ["It is snowy in Oslo, -3 °C. Pack boots and a waterproof coat."]


async def test_two_cities_in_one_event_are_both_counted(chats: Chats) -> None:
    chat = await chats("weather")
    events = await chat.say("Compare Rome and Lima")
    assert [len(event.get_function_calls()) for event in events] == [2, 0, 0]
    state = await chat.state()
    assert (state["count"], state["recent_cities"]) == (2, ["Rome", "Lima"])


async def test_city_list_keeps_the_last_five(chats: Chats) -> None:
    chat = await chats("weather")
    for city in ("Paris", "Rome", "Oslo", "Lima", "Cairo", "London"):
        await chat.say(f"Weather in {city}?")
    assert (await chat.state())["recent_cities"] == ["Rome", "Oslo", "Lima", "Cairo", "London"]


async def test_an_unknown_city_counts_as_a_request_but_not_as_a_report(chats: Chats) -> None:
    chat = await chats("weather")
    events = await chat.say("What should I pack for Atlantis?")
    assert texts(events) == ["I could not find out: No weather station in Atlantis."]
    state = await chat.state()
    assert (state["app:requests"], state.get("user:n")) == (1, None)


async def test_next_session_of_the_user_continues_user_state(chats: Chats) -> None:
    chat = await chats("weather")
    await chat.say("My name is Aya")
    await chat.say("東京の天気は？")
    await chat.open("aya")
    events = await chat.say("Hello")
    assert texts(events) == ["Hello Aya! Last time you asked about 東京."]
    assert events[0].actions.state_delta == {"last_city": "東京"}
    events = await chat.say("And what is it like there now?")
    assert calls(events) == [("get_weather", {"city": "東京"})]
    state = await chat.state()
    assert (state["count"], state["user:n"]) == (1, 2)


async def test_another_user_sees_only_the_app_s_state(chats: Chats) -> None:
    chat = await chats("weather")
    await chat.say("My name is Aya")
    await chat.say("Weather in Rome?")
    await chat.open("ben")
    assert await chat.state() == {"app:requests": 1}


async def test_units_are_part_of_the_profile(chats: Chats) -> None:
    chat = await chats("weather")
    assert texts(await chat.say("I prefer Fahrenheit")) == ["Noted: Fahrenheit from now on."]
    await chat.open("aya")
    assert texts(await chat.say("Weather in Oslo?")) == ["It is snowy in Oslo, 27 °F."]


async def test_follow_up_without_city_asks_for_one(chats: Chats) -> None:
    chat = await chats("weather")
    assert texts(await chat.say("And there?")) == ["Which city?"]


async def test_the_callback_adds_up_the_tokens_of_every_model_call(chats: Chats) -> None:
    chat = await chats("weather")
    events = await chat.say("Weather in Rome?") + await chat.say("Hello")
    used = [event.usage_metadata.total_token_count or 0 for event in events if event.usage_metadata]
    assert len(used) == 3
    assert (await chat.state())["tokens"] == sum(used)
