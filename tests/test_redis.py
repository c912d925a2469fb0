"""The channel layer that `REDIS_URL` chooses, over a real Redis."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid

import pytest
import redis

from tests import forked_processes
from tests.required_programs import missing

URL = os.environ.get("DEVUI_TEST_REDIS", "redis://127.0.0.1:6379/0")

SEND = """
import django, sys
django.setup()
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
layer = get_channel_layer()
assert type(layer).__name__ == "RedisChannelLayer", layer
async_to_sync(layer.group_send)(sys.argv[1], {"type": "look.again"})
"""


@pytest.fixture
def server() -> None:
    """A Redis."""
    try:
        redis.Redis.from_url(URL, socket_connect_timeout=3).ping()
    except redis.ConnectionError as error:
        missing(f"no Redis answers at {URL} (DEVUI_TEST_REDIS): {error}")


async def test_a_message_of_another_process_arrives(server, tmp_path):
    from channels_redis.core import RedisChannelLayer

    group = f"test-{uuid.uuid4().hex}"
    layer = RedisChannelLayer(hosts=[URL])
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    environment = {
        **os.environ,
        "REDIS_URL": URL,
        "DATABASE_URL": f"sqlite:///{tmp_path}/d.sqlite3",
        "DJANGO_SETTINGS_MODULE": "devui.settings",
    }
    sent = await asyncio.to_thread(forked_processes.run, [sys.executable, "-c", SEND, group], env=environment)
    assert sent.returncode == 0, sent.stderr

    assert await layer.receive(channel) == {"type": "look.again"}
    await layer.group_discard(group, channel)
