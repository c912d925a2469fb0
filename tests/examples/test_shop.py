"""The shop agent: a callback overwrites the key that a tool has set."""

from __future__ import annotations

from tests.examples.conftest import Chats, texts


async def test_tool_remembers_the_tier_of_the_customer(chats: Chats) -> None:
    chat = await chats("shop")
    assert texts(await chat.say("My email is ada@example.com")) == [
        "Hello Ada, I have found your account. You are a gold member."
    ]
    assert await chat.state() == {"customer": "Ada", "tier": "gold"}


async def test_callback_overwrites_the_tier_and_the_answer_is_wrong(chats: Chats) -> None:
    chat = await chats("shop")
    await chat.say("My email is ada@example.com")
    assert texts(await chat.say("What does delivery cost?")) == [
        "Delivery costs 5 euros for standard members."
    ]
    assert (await chat.state())["tier"] == "standard"


async def test_unknown_address_is_not_found(chats: Chats) -> None:
    chat = await chats("shop")
    assert texts(await chat.say("My email is eve@example.com")) == ["I know nobody with this address."]
