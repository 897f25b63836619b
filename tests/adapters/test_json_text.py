"""Answers with halves of surrogate pairs: they are stored and sent like any other text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from brokers.adapters.http import HttpError, JsonHttp, refused
from brokers.adapters.json_text import decoded, well_formed
from brokers.adapters.observation import Reported
from tests.adapters.fake import Memory
from tests.adapters.process import Process

HALVES = ["\\ud800", "\\udc00", "\\uDFFF", "\\udc00\\ud800", "a\\ud83db"]


@pytest.mark.parametrize("half", HALVES)
def test_halves_of_pairs_become_replacement_characters(half: str) -> None:
    value = decoded(f'{{"name {half}": ["x{half}", {{"a": "{half}"}}, 1, null, true]}}')
    text = json.dumps(value, ensure_ascii=False)
    text.encode()
    assert "\N{REPLACEMENT CHARACTER}" in text
    assert next(iter(value.values()))[2:] == [1, None, True]


def test_whole_pairs_and_other_texts_stay() -> None:
    value: Any = {"a": ["\N{GRINNING FACE}", "\\ud800", "\N{LATIN SMALL LETTER E WITH ACUTE}", ""], "b": 1.5, "c": None}
    assert decoded(json.dumps(value)) == value
    assert decoded(json.dumps(value, ensure_ascii=False)) == value
    assert well_formed(value) == value


def test_what_an_answer_has_as_text_is_decoded_in_the_same_way() -> None:
    inner = decoded(decoded(json.dumps('{"name": "x\\ud800"}')))
    assert inner == {"name": "x\N{REPLACEMENT CHARACTER}"}
    error = HttpError("answered 400", 400, '{"reason": "bad \\udfff"}')
    assert str(refused(error, "name")).encode()


async def test_answers_over_http_are_decoded_so() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b'[{"name": "x\\ud800"}]', content_type="application/json")

    app = web.Application()
    app.router.add_get("/queues", answer)
    async with TestServer(app) as server:
        client = JsonHttp(str(server.make_url("")).rstrip("/"), "", "")
        try:
            assert await client.request("GET", "/queues") == [{"name": "x\N{REPLACEMENT CHARACTER}"}]
        finally:
            await client.close()


async def test_event_with_such_a_text_is_in_the_journal(tmp_path: Path) -> None:
    memory = Memory()
    name = decoded('"orders \\ud800"')
    orders = memory.add(name, 10)
    process = Process(tmp_path, memory, reports=["queue-overfull"])
    try:
        await process.clock.pass_(0)
        words = decoded('"Overfull \\ud800"')
        process.adapter.events.put_nowait(
            Reported(1, "queue-overfull", orders, words, {"client": words}, {"overfull": True})
        )
        await process.clock.pass_(1)
        (event,) = [each for each in process.events() if each.kind == "queue-overfull"]
        assert event.object == orders
        assert "Overfull \N{REPLACEMENT CHARACTER}" in event.text
    finally:
        await process.close()
