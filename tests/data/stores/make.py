"""Makes the stores of ADK for Python in this folder, with ADK's own services and schemas.

Run it where google-adk 2.13 and SQLAlchemy are installed; DevUI itself needs no SQLAlchemy:

    python -m venv /tmp/golden && /tmp/golden/bin/pip install "google-adk[db]==2.13.0" aiosqlite
    /tmp/golden/bin/python tests/data/stores/make.py
"""

import asyncio
import json
import sqlite3
from pathlib import Path

from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.schemas import v0
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from sqlalchemy import create_engine

FOLDER = Path(__file__).parent
PREFIX = "adk-python-2.13"
T0 = 1_767_225_600.0
SCHEME = {
    "type": "oauth2",
    "flows": {"clientCredentials": {"tokenUrl": "https://example.org/token", "scopes": {"read": "read"}}},
}


def content(role, text):
    return types.Content(role=role, parts=[types.Part(text=text)])


def auth_config():
    oauth2 = OAuth2Auth(client_id="me", client_secret="hush")
    credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=oauth2)
    return AuthConfig(auth_scheme=SCHEME, raw_auth_credential=credential, credential_key="k")


def events(n):
    start = T0 + n * 10
    call = types.FunctionCall(id="c1", name="get_weather", args={"cityName": "Paris", "nothing": None})
    result = types.FunctionResponse(
        id="c1", name="get_weather", response={"skyColor": "blue", "wind_speed": 3}
    )
    image = types.Blob(mime_type="image/png", data=b"\xfb\xff\x00\x01")
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=5, candidates_token_count=3, total_token_count=8
    )
    common = {"invocation_id": f"i{n}", "author": "weather"}
    return [
        Event(
            id=f"e{n}-1",
            invocation_id=f"i{n}",
            author="user",
            timestamp=start + 0.123456,
            content=content("user", "Weather in Paris?"),
        ),
        Event(
            **common,
            id=f"e{n}-2",
            timestamp=start + 1.25,
            content=types.Content(role="model", parts=[types.Part(function_call=call)]),
            usage_metadata=usage,
            long_running_tool_ids={"c1"},
        ),
        Event(
            **common,
            id=f"e{n}-3",
            timestamp=start + 2.5,
            content=types.Content(
                role="user", parts=[types.Part(function_response=result), types.Part(inline_data=image)]
            ),
            actions=EventActions(
                state_delta={
                    "last_city": "Paris",
                    "user:visits": n,
                    "app:calls": n * 2,
                    "temp:x": 1,
                    "city": None,
                },
                artifact_delta={"a.txt": 0},
                requested_tool_confirmations={"c1": ToolConfirmation(hint="sure?", confirmed=True)},
                requested_auth_configs={"c1": auth_config()} if n == 1 else {},
            ),
        ),
        Event(
            **common,
            id=f"e{n}-4",
            timestamp=start + 3.0,
            content=content("model", "It is sunny. 日本 😀"),
            custom_metadata={"myKey": {"inner_key": 1}},
            actions=EventActions(state_delta={"answer": "It is sunny.", "big": 2**60, "pi": 0.1 + 0.2}),
        ),
    ]


async def fill(service):
    """Two sessions of one user take turns: the order of time is not that of the sessions."""
    seeds = {"city": "Rome", "seeded": [1, {"two": 2}], "user:name": "Ann", "app:units": "C", "temp:gone": 1}
    first = await service.create_session(app_name="weather", user_id="ann", session_id="s1", state=seeds)
    second = await service.create_session(app_name="weather", user_id="ann", session_id="s/2", state={})
    await service.create_session(app_name="news", user_id="bob", session_id="s1", state={"topic": "x"})
    for event in events(1):
        await service.append_event(first, event)
    for event in events(2):
        await service.append_event(second, event)
    again = EventActions(state_delta={"user:visits": 3})
    await service.append_event(
        first,
        Event(
            id="e3",
            invocation_id="i3",
            author="user",
            timestamp=T0 + 60,
            content=content("user", "Again"),
            actions=again,
        ),
    )


def fresh(name):
    path = FOLDER / f"{PREFIX}-{name}"
    path.unlink(missing_ok=True)
    return path


async def database(path):
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{path}")
    await fill(service)
    await service.db_engine.dispose()


async def main():
    path = fresh("sqlite.db")
    sqlite_service = SqliteSessionService(str(path))
    await fill(sqlite_service)
    await database(fresh("database-v1.db"))
    legacy = fresh("database-v0.db")
    engine = create_engine(f"sqlite:///{legacy}")
    v0.Base.metadata.create_all(engine)
    engine.dispose()
    await database(legacy)
    sessions = [
        await sqlite_service.get_session(app_name=app, user_id=user, session_id=session)
        for app, user, session in (
            ("weather", "ann", "s1"),
            ("weather", "ann", "s/2"),
            ("news", "bob", "s1"),
        )
    ]
    dumped = [session.model_dump(mode="json", by_alias=True, exclude_none=True) for session in sessions]
    fresh("sessions.json").write_text(json.dumps(dumped, ensure_ascii=False, indent=1) + "\n")
    for store in FOLDER.glob(f"{PREFIX}-*.db"):
        with sqlite3.connect(store) as connection:
            connection.execute("VACUUM")


asyncio.run(main())
