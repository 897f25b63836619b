"""The WebSocket of pages: accepted origins, and hostile messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from brokers import input_limits as limits
from console.asgi import application
from console.live.consumer import LiveConsumer
from console.live.origin import is_same_origin
from tests.console.conftest import Broker
from tests.console.websocket import WebSocket

pytestmark = pytest.mark.django_db


def accepted(origin: str | None, host: str, scheme: str = "ws") -> bool:
    headers = {b"host": host} | ({} if origin is None else {b"origin": origin})
    return is_same_origin(headers, scheme)


@pytest.mark.domain("8 whole origin")
@pytest.mark.parametrize(
    ("origin", "host", "scheme", "ours"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws", True),
        ("http://127.0.0.1:9999", "127.0.0.1:8000", "ws", False),
        ("http://127.0.0.1", "127.0.0.1:8000", "ws", False),
        ("http://localhost:8000", "127.0.0.1:8000", "ws", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "ws", False),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "wss", False),
        ("https://127.0.0.1:8000", "127.0.0.1:8000", "wss", True),
        ("http://localhost", "localhost", "ws", True),
        ("http://localhost:80", "localhost", "ws", True),
        ("https://localhost", "localhost:443", "wss", True),
        ("http://[::1]:8000", "[::1]:8000", "ws", True),
        ("HTTP://LOCALHOST:8000", "localhost:8000", "ws", True),
        ("http://evil.example:8000", "evil.example:8000", "ws", False),  # another name that resolves to this host
        ("http://evil.example", "localhost", "ws", False),
        ("null", "localhost", "ws", False),
        ("", "localhost", "ws", False),
        (None, "localhost", "ws", False),
        ("http://localhost:x", "localhost", "ws", False),
        ("http://localhost:99999", "localhost", "ws", False),
        ("http://[::1", "localhost", "ws", False),
        ("file://localhost", "localhost", "ws", False),
    ],
)
def test_whole_origin_is_compared(origin: str | None, host: str, scheme: str, ours: bool) -> None:
    assert accepted(origin, host, scheme) is ours


def test_trusted_origins_of_the_settings_are_accepted(settings: Any) -> None:
    assert not accepted("https://console.example.org", "127.0.0.1:8000")
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example.org", "https://*.example.net:8443"]
    assert accepted("https://console.example.org", "127.0.0.1:8000")
    assert accepted("https://console.example.org:443", "127.0.0.1:8000")
    assert accepted("https://a.example.net:8443", "127.0.0.1:8000")
    for other in (
        "http://console.example.org",
        "https://console.example.org:8443",
        "https://a.example.net",
        "https://example.com",
    ):
        assert not accepted(other, "127.0.0.1:8000")
    settings.HEADGATE_URL = "https://headgate.example.com/"
    assert accepted("https://headgate.example.com", "127.0.0.1:8000")
    settings.ALLOWED_HOSTS = ["inside.example.com"]
    settings.HTTPS = True
    assert accepted("https://inside.example.com", "inside.example.com")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_page_of_another_port_is_refused_with_the_session_of_this_one(broker: Broker) -> None:
    client = Client()
    user = await asyncio.to_thread(User.objects.create_superuser, "vera")
    await asyncio.to_thread(client.force_login, user)
    cookie = f"headgate_session={client.cookies['headgate_session'].value}"
    headers = [("host", "localhost:8000"), ("cookie", cookie)]
    assert not await WebSocket(application, headers=[*headers, ("origin", "http://localhost:9999")]).open()
    ours = WebSocket(application, headers=[*headers, ("origin", "http://localhost:8000")])
    assert await ours.open()
    await ours.leave()


@pytest.fixture
async def page(broker: Broker) -> AsyncIterator[WebSocket]:
    await asyncio.to_thread(broker.connected)
    made = WebSocket(LiveConsumer.as_asgi())
    made.scope["user"] = User(username="vera", is_superuser=True)
    assert await made.open()
    yield made
    if made.closed is None:
        await made.leave()


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        '{"watch": "overview", "page": ' + "9" * 5000 + "}",
        '{"watch": "overview", "page": NaN}',
        '{"watch": "overview", "page": 1e999}',
        '{"watch": "overview", "search": "\\ud800"}',
        '{"watch": "overview", "search": "\\u0000"}',
        '{"watch": "overview", "states": [{}]}',
        '{"watch": "overview", "states": ["' + "x" * 60_000 + '"]}',
        '{"watch": ["overview"]}',
        '{"watch": {"a": {}}}',
        '{"watch": "overview", "after": -1}',
        '{"watch": "overview", "after": 9223372036854775808}',
        '{"watch": "queue", "object": "type=Queue,virtualhost=\\ud800,name=a"}',
        '{"watch": "queue", "object": [[]]}',
        '{"watch": "overview", "sort": "' + "a," * 30_000 + '"}',
        '"watch"',
        "null",
        "",
        "\x00",
        "{" + ",".join(f'"f{number}":1' for number in range(4000)) + "}",
    ],
)
async def test_hostile_message_is_answered_and_the_next_one_served(text: str, page: WebSocket) -> None:
    await page.send_input({"type": "websocket.receive", "text": text})
    answer = await page.frame()
    assert answer["type"] == "error"
    assert 0 < len(answer["detail"]) < 1100
    await page.send(watch="overview")
    assert (await page.frame_of("snapshot"))["watch"] == "overview"


async def test_binary_message_is_answered(page: WebSocket) -> None:
    await page.send_input({"type": "websocket.receive", "bytes": b"\xff\x00" * 1000})
    assert (await page.frame())["type"] == "error"


@pytest.mark.parametrize("kind", ["text", "bytes"])
async def test_message_that_is_too_long_closes_the_socket_with_its_code(kind: str, page: WebSocket) -> None:
    long = "[" * (limits.SOCKET_MESSAGE + 1)
    await page.send_input({"type": "websocket.receive", kind: long if kind == "text" else long.encode()})
    assert await page.frame() == {}
    assert page.closed == 1009
