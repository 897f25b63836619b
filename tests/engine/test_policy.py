"""Field-wise inheritance, explain, and destination patterns."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.values.policy import (
    BROKER,
    BUILT,
    BUILT_IN,
    FIELDS,
    OWN,
    VIRTUALHOST,
    explain,
    inherit,
)
from brokers.model import POLICY
from brokers.model.patterns import matches, pattern_contains, pattern_fault

LAYERS = (OWN, VIRTUALHOST, BROKER)

some_fields = st.dictionaries(st.sampled_from(FIELDS), st.one_of(st.none(), st.integers(0, 9)))


@pytest.mark.domain("5 order")
@given(st.tuples(some_fields, some_fields, some_fields))
def test_each_field_comes_from_the_most_specific_layer_that_sets_it(values):
    found = inherit(zip(LAYERS, values, strict=True))
    assert set(found) == {a.name for a in POLICY}
    for field, setting in found.items():
        setters = [(layer, v[field]) for layer, v in zip(LAYERS, values, strict=True) if v.get(field) is not None]
        expected = setters[0] if setters else (BUILT, BUILT_IN[field])
        assert (setting.origin, setting.value) == expected


def test_zero_is_a_value_and_overrides_inherited_ones():
    found = inherit([(OWN, {"capacity_bytes": 0}), (BROKER, {"capacity_bytes": 5})])
    assert (found["capacity_bytes"].value, found["capacity_bytes"].origin) == (0, OWN)


@pytest.mark.domain("5 explain")
def test_explain_returns_value_and_origin_of_every_field():
    layers = [
        (OWN, {"capacity_bytes": 10}),
        (VIRTUALHOST, {"flow_stop_bytes": "80%"}),
        (BROKER, {"overflow": "producers"}),
    ]
    explained = explain(inherit(layers))
    assert set(explained) == set(FIELDS)
    assert explained["capacity_bytes"] == {"value": 10, "origin": "own"}
    assert explained["flow_stop_bytes"] == {"value": "80%", "origin": "virtualhost"}
    assert explained["overflow"] == {"value": "producers", "origin": "broker"}
    assert explained["capacity_messages"] == {"value": 0, "origin": "built-in"}
    assert explained["flow_resume_bytes"] == {"value": None, "origin": "built-in"}


# -- patterns --------------------------------------------------------------------------------------------------


@pytest.mark.domain("4 producerFlowControl=false")
@pytest.mark.domain("5 patterns")
@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("", "orders", True),
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders", "Orders", False),
        ("*", "orders", True),
        ("*", "orders.eu", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders", False),
        ("orders.*", "orders.eu.de", False),
        ("*.eu", "orders.eu", True),
        ("*.eu", "orders.us", False),
        ("orders.*.de", "orders.eu.de", True),
        (">", "orders", True),
        ("#", "orders.eu.de", True),
        ("orders.>", "orders", True),
        ("orders.#", "orders.eu.de", True),
        ("orders.>", "ordersx.eu", False),
        ("orders.*.>", "orders", False),
        ("orders.*.>", "orders.eu", True),
        ("stocks.*", "stocks.a+b", True),
        ("a[b]", "a[b]", True),
        ("a[b]", "ab", False),
    ],
)
def test_pattern_matches_names(pattern, name, covered):
    assert pattern_fault(pattern) == ""
    assert matches(pattern, name) is covered


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("a..b", "empty word"),
        (".a", "empty word"),
        ("a.", "empty word"),
        (">.a", "last word"),
        ("a.#.b", "last word"),
        ("a*", "whole words"),
        ("a.b>", "whole words"),
        ("**", "whole words"),
    ],
)
def test_invalid_pattern_is_named_with_its_fault(pattern, fault):
    assert fault in pattern_fault(pattern)
    assert repr(pattern) in pattern_fault(pattern)


words = st.sampled_from(["a", "b"])
names = st.lists(words, min_size=1, max_size=4).map(".".join)
patterns = st.one_of(
    st.just(""),
    st.tuples(st.lists(st.one_of(words, st.just("*")), max_size=4), st.sampled_from(["", ">", "#"]))
    .map(lambda p: ".".join([*p[0], *([p[1]] if p[1] else [])]))
    .filter(lambda p: not pattern_fault(p)),
)
EVERY_NAME = [".".join(n) for k in range(1, 6) for n in product("abc", repeat=k)]


@given(st.text())
def test_any_text_is_a_pattern_or_has_a_fault_and_never_raises(text):
    assert isinstance(pattern_fault(text), str)
    assert isinstance(matches(text, "orders.eu"), bool)


@given(patterns, patterns)
def test_pattern_contains_another_exactly_when_it_matches_all_of_its_names(outer, inner):
    covers_all = all(matches(outer, n) for n in EVERY_NAME if matches(inner, n))
    assert pattern_contains(outer, inner) is covers_all
