"""Bodies are validated by their schemas: for each field of each call, invalid values are refused by the field's name,
and valid values are not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from rest_framework.test import APIClient

from tests.console.conftest import Broker
from tests.console.test_hostile_walk import OBJECT, boss, operations

__all__ = ["boss"]

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

Schema = dict[str, Any]


class Variant(NamedTuple):
    """A body with one unusual field: `name`, `how` it is unusual, and whether the schema has it `allowed`."""

    name: str
    how: str
    allowed: bool
    body: Any


class Schemas:
    """Generates bodies from the schemas of a description."""

    def __init__(self, named: dict[str, Schema]) -> None:
        self._named = named

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema with references resolved, and merged with their siblings."""
        if "$ref" in schema:
            return self.resolved(self._named[schema["$ref"].rsplit("/", 1)[1]])
        for part in schema.get("allOf", ()):
            schema = self.resolved(part) | {key: value for key, value in schema.items() if key != "allOf"}
        return schema

    def sample(self, schema: Schema) -> Any:
        """Return a valid value with only the required fields."""
        schema = self.resolved(schema)
        if "enum" in schema:
            return schema["enum"][0]
        kinds = {
            "boolean": False,
            "integer": schema.get("minimum", 1),
            "number": schema.get("minimum", 1),
            "array": [self.sample(schema["items"])] if schema.get("type") == "array" else None,
            "object": {name: self.sample(schema["properties"][name]) for name in schema.get("required", ())},
        }
        return kinds.get(schema.get("type", ""), OBJECT)

    def variants(self, schema: Schema) -> Iterator[Variant]:
        """Yield bodies with one unusual field each, also in nested objects."""
        schema = self.resolved(schema)
        usual = self.sample(schema)
        for name, declared in schema.get("properties", {}).items():
            field = self.resolved(declared)
            required = name in schema.get("required", ())
            yield Variant(name, "missing", not required, {key: usual[key] for key in usual if key != name})
            if field:  # fields of any type cannot be invalid
                yield Variant(name, "null", _may_be_null(field), {**usual, name: None})
            for how, allowed, value in self.unusual(field):
                yield Variant(name, how, allowed, {**usual, name: value})
            inside, many = (field["items"], True) if field.get("type") == "array" else (field, False)
            for inner in self.variants(inside) if self.resolved(inside).get("properties") else ():
                yield inner._replace(body={**usual, name: [inner.body] if many else inner.body})

    def unusual(self, field: Schema) -> Iterator[tuple[str, bool, Any]]:
        kind = field.get("type")
        if "enum" in field:
            yield "no choice", False, "no such choice"
        elif kind == "string":
            yield "empty", not field.get("minLength"), ""
            if "maxLength" in field:
                yield "too long", False, "x" * (field["maxLength"] + 1)
        if kind in ("integer", "number"):
            if "minimum" in field:
                yield "too small", False, field["minimum"] - 1
                yield "smallest", True, field["minimum"]
            if field.get("maximum", 1 << 63) < 1 << 63:
                yield "too great", False, field["maximum"] + 1
        if kind == "array":
            yield "empty", not field.get("minItems"), []
            if "maxItems" in field:
                yield "too long", False, [self.sample(field["items"])] * (field["maxItems"] + 1)
            if "enum" in self.resolved(field["items"]):
                yield "no choice inside", False, ["no such choice"]


def _may_be_null(field: Schema) -> bool:
    return bool(field.get("nullable")) or None in field.get("enum", ())


@pytest.mark.domain("8 schema is validation")
def test_each_field_is_validated_as_described(boss: APIClient, broker: Broker) -> None:
    tried: Counter[str] = Counter()
    wrong: list[str] = []
    for method, path, operation in operations():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        for name, how, allowed, given in Schemas(operation["schemas"]).variants(body):
            if path.endswith("/queues/default/orders/") and name != "version":
                given["version"] = boss.get(path).json()["version"]  # an accepted body may have changed it
            answer = boss.generic(method, path, json.dumps(given), content_type="application/json")
            tried[f"{how}: {'good' if allowed else 'refused'}"] += 1
            if not _as_described(answer, name, how, allowed=allowed):
                wrong.append(f"{method} {path} with {name} {how}: {answer.status_code} {answer.content[:200]!r}")
    assert not wrong, "\n".join(wrong)
    for how in ("missing", "null", "empty", "no choice", "no choice inside", "too long", "too small", "too great"):
        assert tried[f"{how}: refused"], f"no field of any call was tried with what is {how}"
    assert tried["missing: refused"] > 30
    assert tried["null: refused"] > 60
    assert tried["null: good"] > 10


def _as_described(answer: Any, name: str, how: str, *, allowed: bool) -> bool:
    says = answer.json().get(name, [""])[0] if answer.status_code == 400 else ""
    if allowed:  # it may be invalid for another reason, such as the broker's objects
        return (answer.status_code < 500 or answer.status_code == 503) and f"{name} is {how}" not in says
    return bool(name in says)
