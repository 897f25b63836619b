"""Hostile values for every operation of the API, every page and every form: no server error for any user, refusals name
the field, and effects are small."""

from __future__ import annotations

import difflib
import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from brokers import input_limits as limits
from console.pages.urls import urlpatterns
from tests.console.conftest import Broker, signed_in
from tests.console.hostile import BODIES, TEXTS, VALUES
from tests.console.test_api_contract import LEFT_OUT, furnished

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600), pytest.mark.slow]

KNOWN = {
    "identifier": "1",
    "slug": "local",
    "virtualhost": "default",
    "name": "orders",
    "operation": "explain",
    "number": "1",
}
OBJECT = "type=Queue,virtualhost=default,name=orders"


class Watch:
    """Limits of the effects of a request, regardless of its content."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared = 0
        compare, compose = difflib.get_close_matches, yaml.compose

        def comparing(*args: Any) -> list[str]:
            self.compared += 1
            assert len(args[0]) <= 64
            return compare(*args)

        def composing(text: str, **more: Any) -> Any:
            assert len(text) < 100_000, "nodes are made of what should have been refused"
            return compose(text, **more)

        monkeypatch.setattr(difflib, "get_close_matches", comparing)
        monkeypatch.setattr(yaml, "compose", composing)

    def check(self, answer: Any, what: str, *, call: bool = True) -> None:
        assert answer.status_code < 500 or answer.status_code == 503, f"{what}: {answer.status_code}"
        assert self.compared <= 3 * limits.NAMED, f"{what}: {self.compared} names were compared"
        self.compared = 0
        if not call or answer.status_code < 400:
            return
        assert answer["Content-Type"] == "application/json", what
        said = answer.json()
        assert isinstance(said, dict), what
        assert said, f"{what}: nothing is said"
        assert len(answer.content) < 120_000, what

    def check_fields(self, answer: Any, what: str) -> None:
        """Like `check`; also, errors name a field, except those of a change that cannot be undone."""
        self.check(answer, what)
        if answer.status_code == 400 and "/revert/" not in what:
            assert set(answer.json()) - {"detail"}, f"{what}: {answer.content[:300]!r} names no field"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.fixture
def boss(broker: Broker, tmp_path: Path, settings: Any) -> APIClient:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    settings.CELERY_TASK_ALWAYS_EAGER = False
    broker.connected()
    broker.do(furnished)
    client = signed_in(User.objects.create_superuser("boss"))
    client.raise_request_exception = False
    return client


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path with existing names, and description of each operation."""
    described = SchemaGenerator().get_schema(request=None, public=True)
    found = []
    for path, methods in described["paths"].items():
        if path.startswith("/api/schema") or any(part in path for part in LEFT_OUT):
            continue
        for method, operation in methods.items():
            names = {**KNOWN, "name": OBJECT} if "/objects/" in path else KNOWN
            found.append(
                (method.upper(), path.format(**names), operation | {"schemas": described["components"]["schemas"]})
            )
    return found


def fields_of(operation: dict[str, Any]) -> list[str]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in body:
        body = operation["schemas"][body["$ref"].rsplit("/", 1)[1]]
    return list(body.get("properties", {}))


def query_of(operation: dict[str, Any]) -> list[str]:
    return [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]


def test_hostile_requests_cover_every_call_and_page() -> None:
    assert len(operations()) > 80
    assert sum(bool(fields_of(operation)) for _, _, operation in operations()) > 25
    assert sum(bool(query_of(operation)) for _, _, operation in operations()) > 30


@pytest.mark.domain("8 no input kills")
@pytest.mark.domain("8 answers are JSON")
@pytest.mark.parametrize("value", TEXTS.values(), ids=TEXTS.keys())
def test_no_parameter_of_a_call_causes_a_server_error(value: str, boss: APIClient, watch: Watch) -> None:
    for method, path, operation in operations():
        names = query_of(operation)
        for some in [[name] for name in names] if value in ("-1", "..") else [names]:
            given = {name: value for name in some if name != "(attribute)"}
            if given and method == "GET":
                watch.check_fields(boss.get(f"{path}?{urlencode(given)}"), f"{path} {given}"[:200])


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_no_field_of_a_call_causes_a_server_error(value: Any, boss: APIClient, watch: Watch) -> None:
    for method, path, operation in operations():
        names = fields_of(operation)
        for given in (dict.fromkeys(names, value), *({name: value} for name in names[:1])):
            if given:
                answer = boss.generic(method, path, json.dumps(given).encode(), content_type="application/json")
                watch.check_fields(answer, f"{method} {path} {str(given)[:200]}")


#: A value of each JSON type.
OF_EACH_TYPE: dict[str, Any] = {
    "boolean": True,
    "integer": 1,
    "number": 1.5,
    "string": "true",
    "array": [],
    "object": {},
}


def types_of(operation: dict[str, Any]) -> dict[str, set[str]]:
    """Return the types of each body field in the description, without fields of any type."""

    def types(schema: dict[str, Any]) -> set[str]:
        if "$ref" in schema:
            schema = operation["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        parts = [each for key in ("oneOf", "anyOf", "allOf") for each in schema.get(key, ())]
        found = {schema["type"]} if "type" in schema else set[str]().union(*map(types, parts))
        return found | ({"integer"} if "number" in found else set())

    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in body:
        body = operation["schemas"][body["$ref"].rsplit("/", 1)[1]]
    return {name: found for name, schema in body.get("properties", {}).items() if (found := types(schema))}


@pytest.mark.domain("8 no input kills")
def test_value_of_a_wrong_type_is_refused_by_the_name_of_its_field(boss: APIClient) -> None:
    tried = 0
    for method, path, operation in operations():
        for name, types in types_of(operation).items():
            for other in OF_EACH_TYPE.keys() - types:
                given = ({"version": 1} if "version" in fields_of(operation) else {}) | {name: OF_EACH_TYPE[other]}
                answer = boss.generic(method, path, json.dumps(given).encode(), content_type="application/json")
                what = f"{method} {path}: {name} is {OF_EACH_TYPE[other]!r}, not {types}: {answer.content[:200]!r}"
                assert answer.status_code == 400, what
                assert name in answer.json(), what
                tried += 1
    assert tried > 300


@pytest.mark.domain("8 no input burns")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_no_body_of_a_call_causes_a_server_error(body: bytes, boss: APIClient, watch: Watch) -> None:
    for method, path, operation in operations():
        if "requestBody" in operation:
            watch.check(boss.generic(method, path, body, content_type="application/json"), f"{method} {path}")


@pytest.mark.parametrize("value", TEXTS.values(), ids=TEXTS.keys())
def test_no_page_causes_a_server_error(value: str, boss: APIClient, watch: Watch) -> None:
    names = ("broker", "object", "page", "search", "from", "until", "user", "outcome", "queue", "candidate", "kind")
    for path in pages(urlpatterns):
        for given in (dict.fromkeys(names, value), dict.fromkeys(names[1:], value)):
            watch.check(boss.get(f"{path}?{urlencode(given)}"), f"{path} {value[:50]}", call=False)


FORMS = {
    "/login/": ("username", "password", "next"),
    "/tokens/": ("action", "id", "name", "days", "role", "broker", "virtualhost"),
    "/access/": ("action", "id", "holder", "role", "broker", "virtualhost", "name", "group", "active"),
}
ACTIONS = {
    "/tokens/": ("", "revoke"),
    "/access/": (
        "",
        "give",
        "take",
        "create-user",
        "renew-password",
        "activate",
        "set-groups",
        "create-group",
        "delete-group",
        "revoke-token",
    ),
}


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("value", TEXTS.values(), ids=TEXTS.keys())
def test_no_form_causes_a_server_error(value: str, boss: APIClient, watch: Watch) -> None:
    for path, names in FORMS.items():
        for action in ACTIONS.get(path, ("",)):
            given = dict.fromkeys(names, value) | ({"action": action} if action else {})
            body = urlencode(given, errors="surrogatepass").encode()
            answer = boss.generic("POST", path, body, content_type="application/x-www-form-urlencoded")
            watch.check(answer, f"{path} {action} {value[:50]}", call=False)


@pytest.mark.domain("8 no input burns")
def test_memory_is_released(boss: APIClient) -> None:
    """Refused input is not stored, neither in a cache nor in the audit trail."""

    def flood(times: int) -> int:
        for number in range(times):
            name = f"type=Queue,virtualhost=default,name={number}{'x' * 3_000}"
            assert boss.get(f"/api/v1/why/?{urlencode({'object': name})}").status_code == 404
            text = f"version: 1\nbroker: {{{number}: {'y' * 2_000_000}}}"
            answer = boss.post("/api/v1/policies/file/", {"yaml": text, "dry_run": True}, format="json")
            assert answer.status_code == 400
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    flood(2)
    tracemalloc.start()
    try:
        before = flood(2)
        assert flood(10) - before < 4_000_000  # of 20 MB of input
    finally:
        tracemalloc.stop()


def pages(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        assert isinstance(pattern, URLPattern)
        assert not isinstance(pattern, URLResolver)
        route = str(pattern.pattern)
        for name in ("number", "virtualhost", "name"):
            for kind in ("int", "host", "queue"):
                route = route.replace(f"<{kind}:{name}>", KNOWN[name])
        yield f"/{route}"
