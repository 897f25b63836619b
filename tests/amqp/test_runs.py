"""The C extension for runs: which messages it takes, and what it does with wrong calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proton import Message, symbol

from brokers.amqp import runs
from brokers.amqp.header import header
from brokers.engine.values.message import PLAIN, Header
from tests.interop.peers import absent

SPECIAL, ORDINARY, DURABLE = -1, 0, 1


@pytest.fixture(scope="module")
def extension() -> Any:
    return runs.load() or absent("the C extension brokers.amqp._runs is not built", "install gcc, and `uv sync`")


def encoded(**fields: Any) -> bytes:
    message = Message(body="text", **fields)
    return bytes(message.encode())


SECTIONS = st.sampled_from([b"\x00\x53\x70", b"\x00\x53\x71", b"\x00\x53\x72", b"\x00\x53\x73", b"\x00\x53\x77"])
FIELDS = st.sampled_from(
    [
        b"\x40",
        b"\x41",
        b"\x42",
        b"\x43",
        b"\x50\x04",
        b"\x50\x05",
        b"\x52\x00",
        b"\x52\x09",
        b"\x56\x01",
        b"\x70\0\0\0\1",
    ]
)


@st.composite
def lists(draw: st.DrawFn) -> bytes:
    """An encoded list, whose size and count may be wrong."""
    fields = draw(st.lists(FIELDS, max_size=6))
    content = b"".join(fields)
    size = len(content) + 1 + draw(st.sampled_from([0, 0, 0, 0, 1, 5, -1]))
    return b"\xc0" + bytes([max(0, size), len(fields) + draw(st.sampled_from([0, 0, 0, 1]))]) + content


ANNOTATIONS = st.sampled_from(
    [
        encoded(annotations={symbol("x-opt-jms-dest"): 1}),
        encoded(annotations={symbol("x-opt-delivery-time"): 1 << 40}),
        encoded(annotations={symbol("x-opt-delivery-delay"): 1000, symbol("x" * 200): "y" * 200}),
        encoded(properties={"x-opt-delivery-time": 1}),
    ]
)
MESSAGES = st.lists(
    st.one_of(SECTIONS, lists(), st.just(b"\x45"), ANNOTATIONS, st.binary(max_size=12)), max_size=6
).map(b"".join)


@given(MESSAGES)
@example(b"")
@example(b"\x00\x53\x70\xc0\xff\x01\x41")
@example(b"\x00\x53\x70\xc0\x00\x00\x00\x53\x77")
@example(b"\x00\x53\x72\xd1\x00\x00\xff\xff\x00\x00\x00\x00")
@example(b"\x00\x53\x70\xc0\x07\x06\x41\x40\x40\x40\x40\x40\x00\x53\x77\x40")
@example(b"\x00\x53\x70\xc0\x06\x05\x41\x40\x40\x40\x40\x00\x53\x77\x40")
def test_whatever_it_takes_is_ordinary_to_the_code_without_it(extension: Any, message: bytes) -> None:
    found = extension.classify(message)
    if found == ORDINARY:
        assert header(message) is PLAIN
    elif found == DURABLE:
        assert header(message) == Header(durable=True)
    else:
        assert found == SPECIAL


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ORDINARY),
        ({"durable": True}, DURABLE),
        ({"durable": False, "priority": 4}, ORDINARY),
        ({"durable": True, "annotations": {symbol("x-opt-jms-msg-type"): 5}}, DURABLE),
        ({"annotations": {symbol("x-opt-jms-dest"): 0, symbol("a" * 300): 1}}, ORDINARY),
        ({"properties": {"x-opt-delivery-time": 5}}, ORDINARY),
        ({"priority": 5}, SPECIAL),
        ({"ttl": 10}, SPECIAL),
        ({"delivery_count": 1}, SPECIAL),
        ({"annotations": {symbol("x-opt-delivery-time"): 5}}, SPECIAL),
    ],
)
def test_messages_of_usual_clients_are_taken(extension: Any, fields: dict[str, Any], expected: int) -> None:
    assert extension.classify(encoded(**fields)) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda extension: extension.drain(0),
        lambda extension: extension.drain("no"),
        lambda extension: extension.output(0, 1),
        lambda extension: extension.accept(1),
        lambda extension: extension.accept([0]),
        lambda extension: extension.classify("text"),
        lambda extension: extension.Lane(0, None, None, True),
        lambda extension: extension.Lane("no", None, None, True),
        lambda extension: extension.bind("/nowhere.so", 1, 1, 1, (1, 1, 1, 1), []),
        lambda extension: extension.bind("libc.so.6", 1, 1, 1, (1, 1, 1, 1), []),
        lambda extension: extension.bind("libc.so.6", 1, 1, 1, (1, 1, 1, 1), [64]),
    ],
)
def test_wrong_calls_are_errors(extension: Any, call: Any) -> None:
    with pytest.raises((ValueError, TypeError, ImportError)):
        call(extension)
    assert extension.accept([]) == [], "it still works"


class _Unloadable:
    """What importing yields of an extension for another system, of another release, or for another Proton."""

    def __init__(self, error: Exception, *, at_import: bool) -> None:
        self._error, self._at_import = error, at_import

    def import_module(self, _name: str) -> Any:
        if self._at_import:
            raise self._error
        return self

    def bind(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "at_import", "warns"),
    [
        (ModuleNotFoundError("No module named 'brokers.amqp._runs'"), True, False),
        (ImportError("version `GLIBC_2.99' not found"), True, True),
        (ImportError("libqpid-proton.so has no function pn_delivery_abort"), False, True),
        (TypeError("function takes exactly 5 arguments (4 given)"), False, True),
    ],
)
def test_extension_that_cannot_be_used_is_named_and_the_broker_serves_without_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, at_import: bool, warns: bool
) -> None:
    monkeypatch.delenv(runs.PLAIN, raising=False)
    monkeypatch.setattr(runs, "importlib", _Unloadable(error, at_import=at_import))
    assert runs.load() is None
    assert [str(error) in each.message for each in caplog.records] == [True] * warns
