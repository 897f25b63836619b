"""Object names and values: every name parses back, and any input raises ValueError at most."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokers.model import (
    TYPES,
    Kind,
    ObjectName,
    check_arguments,
    check_attributes,
    object_name,
    parse_count,
    parse_level,
)

types = st.sampled_from(list(TYPES.values()))


@st.composite
def names(draw: Any) -> ObjectName:
    declared = draw(types)
    return object_name(declared.name, **{k: draw(st.text()) for k in declared.keys})


@given(names())
@example(object_name("VirtualHost", name=""))
@example(object_name("VirtualHost", name='a"b\\'))
@example(object_name("VirtualHost", name=" x\n"))
@example(object_name("Queue", virtualhost="a,name=b", name="type=Queue"))
def test_object_name_parses_back_from_its_text(name):
    assert ObjectName.parse(str(name)) == name


def test_plain_names_are_written_without_quotes():
    name = object_name("Queue", virtualhost="default", name="orders.eu")
    assert str(name) == "type=Queue,virtualhost=default,name=orders.eu"
    assert str(object_name("Broker")) == "type=Broker"
    assert str(object_name("Producer", virtualhost="default", id=7)) == "type=Producer,virtualhost=default,id=7"


def test_keys_in_any_order_are_sorted_as_declared():
    name = ObjectName.parse("type=Queue,name=orders,virtualhost=default")
    assert str(name) == "type=Queue,virtualhost=default,name=orders"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "Queue",
        "type=",
        "type=Nothing",
        "type=Queue",
        "type=Queue,virtualhost=a",
        "type=Queue,virtualhost=a,name=b,id=3",
        "type=Broker,",
        "type=Broker,,",
        ",type=Broker",
        "name=a,type=VirtualHost",
        'type=VirtualHost,name="a',
        'type=VirtualHost,name=a"b',
        'type=VirtualHost,name="a"b',
        "type=VirtualHost,name=a=b",
        "type=VirtualHost,type_name=x",
        "type=VirtualHost,name=a,name=b",
        "type=VirtualHost,type=VirtualHost,name=a",
    ],
)
def test_invalid_object_name_raises_a_value_error(bad):
    with pytest.raises(ValueError, match=r"."):
        ObjectName.parse(bad)


@given(st.one_of(st.text(), st.from_regex(r"type=[A-Z][a-z]+(,[a-z_]+=[^,]*){0,3}")))
def test_any_text_is_an_object_name_or_a_value_error(text):
    try:
        name = ObjectName.parse(text)
    except ValueError:
        return
    assert ObjectName.parse(str(name)) == name


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


@given(types, anything)
@example(TYPES["Queue"], 10**5000)
@example(TYPES["Queue"], "9" * 5000)
def test_any_value_of_any_attribute_is_accepted_or_refused_with_a_sentence(declared, value):
    for attribute in declared.attributes:
        for checked in (value, [value]):
            good, wrong = check_attributes(declared, {attribute.name: checked}, creating=False)
            assert set(good) | {f for f, _ in wrong} == {attribute.name}
            assert all(sentence for _, sentence in wrong)
    for operation in declared.operations:
        good, wrong = check_arguments(operation, {a.name: value for a in operation.arguments} | {"bogus": value})
        assert "bogus" in dict(wrong)
        assert set(good) <= {a.name for a in operation.arguments}


@given(st.integers(0, (1 << 63) - 1))
def test_count_is_the_same_as_a_number_and_as_text(count):
    assert parse_count("x", count) == parse_count("x", f" {count} ") == parse_level("x", str(count)) == count


@pytest.mark.parametrize("bad", [-1, 1 << 63, "-1", "1.5", "", "1e3", 1.0, True, None, "9" * 30])
def test_invalid_count_is_refused_by_name(bad):
    with pytest.raises(ValueError, match="capacity_bytes is"):
        parse_count("capacity_bytes", bad)


@given(st.decimals(0, 100, places=3))
def test_percentage_parses_back_exactly(percent):
    level = parse_level("x", f"{percent}%")
    assert isinstance(level, str)
    assert float(level[:-1]) == float(percent)
    assert parse_level("x", level) == level


@pytest.mark.parametrize("bad", ["101%", "-1%", "%", "1e1%", "100.5%", "8 0%", "1.2345%", "nan%", "%80"])
def test_invalid_percentage_is_refused_by_name(bad):
    with pytest.raises(ValueError, match="flow_stop_bytes is"):
        parse_level("flow_stop_bytes", bad)


def test_managed_model_is_consistent():
    for declared in TYPES.values():
        own = [a.name for a in declared.attributes]
        assert len(set(own)) == len(own)
        assert set(declared.keys) <= set(own)
        assert "version" in own
        assert all(a.description for a in declared.attributes)
        assert all(declared.attribute(k).kind in (Kind.STRING, Kind.INTEGER) for k in declared.keys)
        for operation in declared.operations:
            assert operation.effect in ("read", "change", "destroy")
            assert operation.description
