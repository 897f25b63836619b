"""Names of managed objects as JMX writes them, paths of requests, and values: pure."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from brokers.model import TYPES, Attribute, Kind, ObjectName, object_name
from console.jolokia.names import MalformedName, jmx_name, parse
from console.jolokia.paths import join_path, split_path
from console.jolokia.protocol import Refusal, from_json, from_path
from console.jolokia.values import inner, named_arguments, written

_HOSTILE = ",=\"\\*?:!/\n\t '%-<>a\u00e9\u2028\U0001f407"
QUEUE = "headgate:type=Queue,broker=local,"


def _texts(count: int = 500) -> list[str]:
    dice = random.Random(11)
    return [
        "",
        "orders",
        "\n",
        '"',
        "\\",
        '\\"',
        "*",
        "a,b=c",
        *("".join(dice.choices(_HOSTILE, k=dice.randrange(12))) for _ in range(count)),
    ]


def _queue(name: str, host: str = "default") -> ObjectName:
    return object_name("Queue", virtualhost=host, name=name)


@pytest.mark.domain("jolokia names")
@pytest.mark.parametrize("canonical", [True, False])
def test_every_name_survives_a_round_trip(canonical: bool) -> None:
    for text in _texts():
        name = _queue(text, host=text[::-1])
        target = parse(jmx_name("local", name, canonical=canonical)).target()
        assert target is not None
        assert (target.broker, target.name) == ("local", name)


def test_names_look_as_in_jmx() -> None:
    name = _queue("orders")
    assert jmx_name("local", name, canonical=False) == (
        'headgate:type=Queue,broker=local,virtualhost="default",name="orders"'
    )
    assert jmx_name("local", name) == 'headgate:broker=local,name="orders",type=Queue,virtualhost="default"'
    assert jmx_name("local", object_name("Broker"), canonical=False) == "headgate:type=Broker,broker=local"


def test_no_type_has_a_key_that_names_use_for_themselves() -> None:
    assert not [t.name for t in TYPES.values() if {"type", "broker"} & set(t.keys)]


def test_quotes_are_optional_around_plain_values() -> None:
    target = parse(f"{QUEUE}virtualhost=default,name=orders").target()
    assert target is not None
    assert target.name == _queue("orders")


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        (f"{QUEUE}*", ["orders", "a,b"], []),
        ("*:*", ["orders"], []),
        ("head?ate:type=Queue,*", ["orders"], []),
        (f"{QUEUE}virtualhost=*,name=ord*", ["orders", "ord"], ["reorder", "Ord"]),
        (f'{QUEUE}virtualhost=*,name="*.eu.?"', ["a.eu.1", ".eu.x"], ["a.eu.", "a.eu.10"]),
        (f'{QUEUE}virtualhost=*,name="a\\*b*"', ["a*b", "a*bc"], ["axb", "a*"]),
        (f'{QUEUE}*,name="a\\nb"', ["a\nb"], ["anb", "a\\nb"]),
        ("headgate:*,type=Queue", ["orders"], []),
        (f"{QUEUE}virtualhost=*,name=a*b*c", ["abc", "aXbXbXc", "abbc"], ["ab", "acb", "abcd"]),
        ("java.lang:*", [], ["orders"]),
        (f"{QUEUE}name=*", [], ["orders"]),
        (f"{QUEUE}colour=red,*", [], ["orders"]),
        ("headgate:type=Broker,*", [], ["orders"]),
        ("headgate:type=Queue,broker=other,*", [], ["orders"]),
    ],
)
def test_patterns_match_as_in_jmx(text: str, matching: list[str], others: list[str]) -> None:
    pattern = parse(text)
    assert not pattern.exact

    def found(name: str) -> bool:
        return pattern.allows_broker("local") and pattern.allows_type("Queue") and pattern.matches(_queue(name))

    assert [name for name in [*matching, *others] if found(name)] == matching


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "headgate:",
        "headgate:type",
        "headgate:type=Queue,",
        "headgate:type=a,type=b",
        'headgate:a="',
        "a:b=c,,",
        "headgate:*,",
        "headgate:*,*",
        'headgate:a="b"c',
        'headgate:a=b"c"',
        "a\nb:type=x",
        'headgate:a="\\x"',
        "headgate:=b",
    ],
)
def test_malformed_names_are_refused(text: str) -> None:
    with pytest.raises(MalformedName):
        parse(text)


@pytest.mark.parametrize(
    "text", ["headgate:type=Nothing", "headgate:type=Broker", f"{QUEUE}name=a", "java.lang:type=Memory"]
)
def test_well_formed_names_of_no_object_have_no_target(text: str) -> None:
    assert parse(text).target() is None


def test_hostile_patterns_take_no_exponential_time() -> None:
    began = time.process_time()
    pattern = parse(f"{QUEUE}virtualhost=*,name={'*a' * 900}b")
    assert not pattern.matches(_queue("a" * 4000))
    for text in ('"' * 4000, "\\" * 4000, "=" * 4000, "a=," * 1000, 'a="' * 1000, "*" * 4000):
        with pytest.raises(MalformedName):
            parse(f"headgate:{text},,")
    assert time.process_time() - began < 20  # it is some 10 ms


def test_random_texts_are_parsed_or_refused() -> None:
    for text in _texts(2000):
        for whole in (text, f"headgate:{text}", f'headgate:type=Queue,name="{text}"'):
            with contextlib.suppress(MalformedName):
                parse(whole).target()


# -- paths ------------------------------------------------------------------------------------------------------------


def test_parts_of_paths_survive_a_round_trip() -> None:
    dice = random.Random(5)
    texts = [text for text in _texts() if text]
    for _ in range(500):
        parts = dice.sample(texts, dice.randrange(1, 5))
        assert split_path(join_path(parts)) == parts


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", []),
        ("/", []),
        ("read/a/b/", ["read", "a", "b"]),
        ("/read//b", ["read", "", "b"]),
        ('a!/b!!c!"d', ['a/b!c"d']),
        ("a!", ["a!"]),
        ("a!!!/b", ["a!/b"]),
    ],
)
def test_escapes_in_paths(path: str, parts: list[str]) -> None:
    assert split_path(path) == parts


def test_requests_in_urls() -> None:
    name = 'headgate:type=Queue,broker=local,virtualhost="default",name="mail/out!"'
    read = from_path("read/" + join_path([name, "state,depth_messages", "a"]), {"maxDepth": "7"})
    assert (read.mbean, read.attributes, read.several, read.path) == (name, ("state", "depth_messages"), True, ("a",))
    assert read.config["maxDepth"] == "7"
    old = from_path('read/headgate:type=Queue,name="a/-/b/-/c"/state', {})
    assert (old.mbean, old.attributes) == ('headgate:type=Queue,name="a/b/c"', ("state",))
    write = from_path("write/" + join_path([name, "capacity_messages", "5"]), {})
    assert (write.attributes, write.value) == (("capacity_messages",), "5")
    call = from_path("exec/" + join_path([name, "purge()", "x/y", "-"]), {})
    assert (call.operation, call.arguments) == ("purge()", ("x/y", "-"))
    assert from_path("", {}).kind == from_path("version", {}).kind == "version"
    assert from_path("search/headgate:*", {}).mbean == "headgate:*"
    assert from_path("list/headgate/type=Queue,name=a!/b/attr", {}).path == ("headgate", "type=Queue,name=a/b", "attr")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "read",
        {},
        {"type": 1},
        {"type": ["read"]},
        {"type": "READ", "mbean": "a:b=c"},
        {"type": "notification"},
        {"type": "read"},
        {"type": "read", "mbean": ""},
        {"type": "read", "mbean": 5},
        {"type": "read", "mbean": "a:b=c", "attribute": 5},
        {"type": "read", "mbean": "a:b=c", "attribute": [5]},
        {"type": "read", "mbean": "a:b=c", "path": {}},
        {"type": "read", "mbean": "a:b=c", "config": []},
        {"type": "read", "mbean": "a:b=c", "target": {"url": "service:jmx:rmi://other"}},
        {"type": "write", "mbean": "a:b=c", "value": 1},
        {"type": "write", "mbean": "a:b=c", "attribute": ["a", "b"], "value": 1},
        {"type": "write", "mbean": "a:b=c", "attribute": "a", "value": 1, "path": "x"},
        {"type": "exec", "mbean": "a:b=c"},
    ],
)
def test_malformed_requests_are_refused(body: object) -> None:
    with pytest.raises(Refusal) as refused:
        from_json(body, {})
    assert refused.value.status == 400
    assert str(refused.value)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Kind.STRING, '""', ""),
        (Kind.STRING, "[null]", None),
        (Kind.STRING, "5", "5"),
        (Kind.LEVEL, "80%", "80%"),
        (Kind.NUMBER, "1.5", 1.5),
        (Kind.NUMBER, "many", "many"),
        (Kind.INTEGER, 5, 5),
        (Kind.INTEGER, None, None),
        (Kind.LIST, '["a","b"]', ["a", "b"]),
        (Kind.LIST, "a, b", ["a", "b"]),
        (Kind.MAP, '{"a":1}', {"a": 1}),
    ],
)
def test_texts_are_converted_to_the_kind_of_the_attribute(kind: Kind, given: object, value: object) -> None:
    assert written(Attribute("a", kind, ""), given) == value


def test_arguments_by_place_or_by_name() -> None:
    stop = TYPES["Queue"].operation("stop-producers")
    assert stop is not None  # reason, actor, for_ms, below
    assert named_arguments(stop, ("why",)) == {"reason": "why"}
    assert named_arguments(stop, ("why", "60000", "")) == {"reason": "why", "for_ms": "60000"}
    assert named_arguments(stop, ("why", None)) == {"reason": "why"}
    assert named_arguments(stop, ({"reason": "why", "for_ms": 5},)) == {"reason": "why", "for_ms": 5}
    with pytest.raises(Refusal, match="arguments"):
        named_arguments(stop, ("a",) * 9)


def test_inner_paths() -> None:
    value = {"a": [{"x": 1}, {"x": 2}, {"y": 3}], "b": {"x": 4}}
    assert inner(value, ()) == value
    assert inner(value, ("a", "1", "x")) == 2
    assert inner(value, ("a", "*", "x")) == [1, 2]
    assert inner(value, ("*", "x")) == {"b": 4}
    for path in [("c",), ("a", "9"), ("a", "-1"), ("a", "٣"), ("b", "x", "x"), ("b", "x", "*"), ("a", "9" * 5000)]:
        with pytest.raises(Refusal):
            inner(value, path)
