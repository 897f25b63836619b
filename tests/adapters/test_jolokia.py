"""Jolokia's protocol: names, errors within HTTP 200, and what is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from brokers.adapters import jolokia
from brokers.adapters.http import JsonHttp
from brokers.adapters.jolokia import Jolokia, JolokiaError, answer_of, properties_of, quote
from brokers.admin import BrokerUnreachable, NotAllowed, NotFound


@pytest.mark.parametrize("value", ["orders", "a,b=c:d", 'say "hi"', "back\\slash", "*?", "two\nlines", "", "\\n", "ü"])
def test_quoted_names_are_read_as_they_were(value: str) -> None:
    name = f"org.apache:broker={quote('b')},type=Queue,queue={quote(value)}"
    assert properties_of(name) == {"broker": "b", "type": "Queue", "queue": value}


def test_quotes_escape_what_jmx_takes_for_a_pattern() -> None:
    assert quote('a*b?c"d\\e\n') == r'"a\*b\?c\"d\\e\n"'


def test_path_of_a_description_escapes_slashes_and_exclamation_marks() -> None:
    assert jolokia.describe('d:a="x/y!z"') == {"type": "list", "path": 'd/a="x!/y!!z"'}


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"status": 404, "error_type": "javax.management.InstanceNotFoundException",
          "error": "javax.management.InstanceNotFoundException : a:b=c"}, NotFound, "a:b=c"),
        ({"status": 403, "error": "Origin null is not allowed to call this agent"}, NotAllowed, "Origin null"),
        ({"status": 500, "error_type": "java.lang.SecurityException", "error": "user lacks manage"}, NotAllowed,
         "lacks manage"),
        ({"status": 500, "error_type": "java.lang.IllegalStateException",
          "error": "java.lang.IllegalStateException : no"}, JolokiaError, "^no$"),
        ({"status": 500}, JolokiaError, "500"),
        ("text", BrokerUnreachable, "not Jolokia"),
        ({}, JolokiaError, "None"),
    ],
)  # fmt: skip
def test_errors_within_an_answer_are_those_of_the_interface(said: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        answer_of(said).get()


def test_attributes_that_failed_are_unknown() -> None:
    pattern = {"status": 200, "value": {"a:b=c": {"Size": 1, "Blocked": "ERROR: no such attribute (class X)"}}}
    assert answer_of(pattern).get() == {"a:b=c": {"Size": 1}}
    one = {"status": 200, "value": {"Size": 1, "Blocked": "ERROR: no such attribute (class X)", "Name": "ERRORS"}}
    assert answer_of(one).get() == {"Size": 1, "Name": "ERRORS"}
    fault = {"error_type": "javax.management.AttributeNotFoundException", ".error": True, "error": "No such attribute"}
    assert answer_of({"status": 200, "value": {"Size": 1, "Nope": fault}}).get() == {"Size": 1}
    assert answer_of({"status": 200, "value": {"a:b=c": {"Size": 1, "Nope": fault}}}).get() == {"a:b=c": {"Size": 1}}


class Agent:
    """Answers what it is given, and records what it was sent."""

    def __init__(self) -> None:
        self.answer: Any = []
        self.sent: list[Any] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.sent.append((dict(request.query), request.headers.get("Origin"), await request.json()))
        return web.json_response(self.answer)


@pytest_asyncio.fixture
async def agent() -> AsyncIterator[tuple[Agent, Jolokia]]:
    served, application = Agent(), web.Application()
    application.router.add_post("/jolokia", served.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}/jolokia"
    client = Jolokia(JsonHttp(base, "ada", "secret"))
    yield served, client
    await client.close()
    await runner.cleanup()


async def test_requests_are_one_post_with_the_origin_and_without_limits(agent: tuple[Agent, Jolokia]) -> None:
    served, client = agent
    served.answer = [{"status": 200, "value": 3}, {"status": 404, "error": "gone"}]
    first, second = await client.post([jolokia.search("a:*"), jolokia.execute("a:b=c", "block()")])
    assert first.get() == 3
    with pytest.raises(NotFound, match="gone"):
        second.get()
    ((query, origin, body),) = served.sent
    assert (query["maxCollectionSize"], query["ignoreErrors"]) == ("0", "true")
    assert origin == client.base.removesuffix("/jolokia")
    assert [request["type"] for request in body] == ["search", "exec"]
    assert await client.post([]) == []
    assert len(served.sent) == 1


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ({"status": 403, "error": "Origin null is not allowed"}, NotAllowed, "Origin null"),
        ({"status": 200, "value": {"agent": "2.6.0"}}, BrokerUnreachable, "one answer"),
        ([], BrokerUnreachable, "0 answers to 1 requests"),
        (None, BrokerUnreachable, "not Jolokia"),
    ],
)
async def test_answer_to_something_else_is_an_error(
    agent: tuple[Agent, Jolokia], answer: Any, error: type[Exception], words: str
) -> None:
    served, client = agent
    served.answer = answer
    with pytest.raises(error, match=words):
        await client.one(jolokia.search("a:*"))
