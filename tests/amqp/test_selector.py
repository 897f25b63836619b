"""Selectors: what they select, what they do with what is missing, and how they say what is wrong with them."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message

from brokers.amqp.dead_letter import as_dead_letter
from brokers.amqp.like import MOST_STEPS
from brokers.amqp.properties import properties
from brokers.amqp.selectable import property_of
from brokers.amqp.selector import InvalidSelector, parse

PROPERTIES: dict[str, Any] = {
    "color": "blue",
    "weight": 2500,
    "ratio": 1.5,
    "ok": True,
    "name": "a_b%c",
    "x.y": 3,
    "_a$b": 7,
    "größe": 1,
}


def answer(text: str) -> bool | None:
    return parse(text)(PROPERTIES.get)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "text",
    [
        "color = 'blue'",
        "color='blue'AND weight>2499",
        "color <> 'red' or weight < 0",
        "not color = 'red'",
        "weight BETWEEN 2500 AND 2500",
        "weight not between 1 and 2",
        "color IN ('red', 'blue')",
        "color NOT IN ('red')",
        r"name LIKE 'a\_b%' ESCAPE '\'",
        "color LIKE 'b%' and color not like '_x%'",
        "color LIKE '%l%e'",
        "missing IS NULL AND color IS NOT NULL",
        "weight / 2 = 1250 AND ratio * 2 = 3",
        "7 / 2 = 3 AND -7 / 2 = -3 AND 7 / 2.0 = 3.5",
        "weight - 500 * 2 = 1500 AND (weight - 500) * 2 = 4000",
        "-weight < -2000 and +weight = 2.5e3",
        "x.y = 3L and _a$b = 7 and größe = 1",
        "ok and ok = TRUE and ok <> false",
        "'it''s' = 'it''s'",
        "\"color\" = 'blue'",
        "weight > .5 AND ratio > 1e-1",
        "missing = 1 OR ok",
        "(color = 'red' OR color = 'blue') AND NOT (weight < 1)",
    ],
)
def test_a_condition_that_holds_selects(text: str) -> None:
    assert answer(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red'",
        "color = 5",
        "color <> 5",
        "ok = 'true'",
        "color > 'a'",
        "ok AND weight > 2500",
        "weight IN ('x')",
    ],
)
def test_a_condition_that_does_not_hold_or_compares_unlike_things_is_false(text: str) -> None:
    assert answer(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "missing = 1",
        "NOT missing = 1",
        "missing LIKE 'a'",
        "missing + 1 = 2",
        "weight / 0 = 1",
        "missing AND ok",
        "NOT color",
    ],
)
def test_missing_property_is_unknown_and_so_is_its_negation(text: str) -> None:
    assert answer(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "something is missing"),
        ("color =", "something is missing"),
        ("color == 'x'", "from \"= 'x'\" on"),
        ("color IN (1)", "from '1)' on"),
        ("a LIKE 'x' ESCAPE 'ab'", "one character"),
        ("a LIKE 'x!' ESCAPE '!'", "ends with its escape"),
        ("a = 'x", "cannot be read"),
        ("AND", "cannot be read"),
        ("NOT " * 500 + "a", "nested"),
        ("-" * 4000 + "a", "nested"),
        ("a" * 5000, "4,096 at most"),
    ],
)
def test_invalid_selector_text_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(InvalidSelector, match=re.escape(said)) as refused:
        parse(text)
    assert text[:40] in str(refused.value).replace("\\'", "'")


@given(st.text(alphabet="aANDORnot =<>'%_().12-+", max_size=40))
def test_any_text_is_a_selector_or_refused(text: str) -> None:
    try:
        condition = parse(text)
    except InvalidSelector:
        return
    condition({}.get)
    condition(lambda name: 1)


@given(st.text(alphabet="ab%_", max_size=8), st.text(alphabet="ab", max_size=12))
def test_like_agrees_with_a_plain_match(pattern: str, given_text: str) -> None:
    plain = re.compile(pattern.replace("%", ".*").replace("_", "."), re.DOTALL)
    found = parse(f"a LIKE '{pattern}'")({"a": given_text}.get)
    assert found is (plain.fullmatch(given_text) is not None)


def test_a_hostile_pattern_is_answered_at_once() -> None:
    condition = parse("a LIKE '" + "%a" * 60 + "%b'")
    began = time.process_time()
    assert condition({"a": "a" * 5000}.get) is False
    assert time.process_time() - began < 1


class CountedText(str):
    """Counts the searches by `find`, which take linear time."""

    searches = 0

    def find(self, *place: Any) -> int:
        self.searches += 1
        return super().find(*place)


@given(st.text(alphabet="ab%_", max_size=8), st.text(alphabet="ab", max_size=12))
def test_not_like_is_the_opposite_of_like(pattern: str, given_text: str) -> None:
    like, unlike = (parse(f"a {words} '{pattern}'")({"a": given_text}.get) for words in ("LIKE", "NOT LIKE"))
    assert like is (not unlike)


def test_each_part_of_a_pattern_is_searched_for_once_in_linear_time() -> None:
    value = CountedText("a" * 100_000)
    part = "a" * 1_300 + "b"
    assert parse(f"p LIKE '%{part}%{part}%{part}%'")({"p": value}.get) is False
    assert value.searches == 1
    value = CountedText("x" + (part + "-") * 70 + "y")
    assert parse(f"p LIKE 'x%{part}%{part}%-y'")({"p": value}.get) is True
    assert value.searches == 2


def test_search_for_single_any_characters_that_would_take_long_is_unknown() -> None:
    value = "a" * (MOST_STEPS // 1_000)
    for words in ("LIKE", "NOT LIKE"):
        assert parse(f"p {words} '%{'a' * 1_000}_b%'")({"p": value}.get) is None
    assert parse(f"p LIKE '%{'a' * 900}_a%'")({"p": value}.get) is True
    assert parse(f"p LIKE '{'a' * 1_000}_%'")({"p": value}.get) is True, "it is not searched for"
    assert parse(f"p LIKE '%_{'a' * 1_000}'")({"p": value}.get) is True


def test_selectors_can_use_properties_and_headers_of_a_message() -> None:
    message = Message(
        body="b", priority=7, durable=True, subject="kind", id="ID:1", properties={"color": "blue", "n": 3}
    )
    message.correlation_id, message.group_id, message.creation_time = "c", "g", 12.0
    of = property_of(bytes(message.encode()))
    wanted = {
        "color": "blue",
        "n": 3,
        "JMSPriority": 7,
        "JMSDeliveryMode": "PERSISTENT",
        "JMSType": "kind",
        "JMSMessageID": "ID:1",
        "JMSCorrelationID": "c",
        "JMSXGroupID": "g",
        "JMSTimestamp": 12000,
        "missing": None,
        "JMSXUserID": None,
    }
    assert {name: of(name) for name in wanted} == wanted


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_have_no_properties(body: bytes) -> None:
    assert property_of(body)("color") is None or True
    assert parse("color = 'blue' AND JMSPriority > 9")(property_of(body)) is not True


@pytest.mark.parametrize(
    "descriptor",
    [
        b"\xa0\x02ab",
        b"\xb0\x00\x00\x00\x00",
        b"\x45",
        b"\xc1\x01\x00",
        b"\x40",
        b"\x00\x53\x01\x45",
        b"\x82" + bytes(8),
    ],
)
def test_section_with_an_invalid_descriptor_is_ignored(descriptor: bytes) -> None:
    body = b"\x00" + descriptor + b"\x45" + bytes(Message(properties={"color": "blue"}).encode())
    assert property_of(body)("color") is None
    assert properties(body).subject == ""
    assert as_dead_letter(body, "expired", "q", 1, "")
