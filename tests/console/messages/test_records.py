"""What the audit trail records of operations on messages."""

from __future__ import annotations

import json

import pytest

from brokers.admin import BrokerUnreachable, InvalidValue
from brokers.model import TYPES
from console.operations.message_records import fault, recorded

HIDDEN = "hush"
CONTENT = {
    "body": HIDDEN,
    "properties": {"subject": HIDDEN},
    "application_properties": {HIDDEN: HIDDEN},
    "message": {"properties": {"subject": HIDDEN}},
    "messages": [{"properties": {"subject": HIDDEN}}],
    "annotations": {HIDDEN: 1},
    "sentence": HIDDEN,
    "later": HIDDEN,
}


@pytest.mark.parametrize("operation", ["read-message", "publish-message"])
def test_no_content_is_recorded(operation: str) -> None:
    assert HIDDEN not in json.dumps(recorded(operation, {**CONTENT, "id": "17-4-0a1b2c3d", "body_kind": "data"}))


def test_what_was_done_is_recorded() -> None:
    given = {"match": {"min_bytes": 5}, "to": "b", "messages": 7, "bytes": 70, "skipped": [{"id": "1", "why": "w"}]}
    assert recorded("move-messages", given) == {**given, "skipped": 1}
    assert recorded("read-message", {"id": "1", "offset": 0, "size": None}) == {"id": "1", "offset": 0}


def test_many_identifiers_are_cut() -> None:
    named = recorded("delete-messages", {"ids": [str(n) for n in range(1000)]})["ids"]
    assert (len(named), named[-1]) == (51, "and 950 more")


def test_other_operations_are_recorded_as_before() -> None:
    assert recorded("stop-producers", {"queues": ["a"], "body": "b"}) == {"queues": ["a"], "body": "b"}
    assert fault("stop-producers", ValueError("x")) == ""


def test_operation_with_a_role_that_is_not_listed_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    purge = TYPES["Queue"].operation("purge")
    assert purge is not None
    secret = replace(purge, name="open-message", role="message-reader")
    queue = replace(TYPES["Queue"], operations=(*TYPES["Queue"].operations, secret))
    monkeypatch.setitem(TYPES, "Queue", queue)
    assert recorded("open-message", CONTENT) == {}
    assert fault("open-message", InvalidValue({"body": HIDDEN})) == "body is invalid"


def test_errors_of_content_name_the_field_and_quote_nothing() -> None:
    wrong = InvalidValue({"properties": f"properties is {HIDDEN}", "priority": "priority is 12: at most 9"})
    assert fault("publish-message", wrong) == "properties is invalid; priority is 12: at most 9"
    assert fault("publish-message", TypeError(HIDDEN)) == "TypeError"
    assert fault("publish-message", BrokerUnreachable("the broker cannot be reached")) == ""
