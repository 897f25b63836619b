"""Input limits: hostile bodies, parameters, forms and socket messages are refused with the field's name, and occupy no
memory."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from console.asgi import application, routes
from console.intake.bodies import limited
from console.intake.json_text import read_json
from console.operations import policy_file
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

FILE = "/api/v1/policies/file/"


# -- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 800_000, "line 1: more than 12 maps and lists inside each other"),
        ("{a: " * 200_000, "line 1: more than 12 maps and lists inside each other"),
        ("- " * 400_000, "line 1: more than 12 maps and lists inside each other"),
        ("a: " + "x" * 900_000, "line 1: a name or value has 900,000 characters: 4,000 at most"),
        ("version: 1\nbroker: &a\n  b: *a\n", "line 3: *a refers to a node that contains it"),
        ("a: \ud800", "yaml has half a character (a surrogate) U+D800 as its character 4: that is no text"),
    ],
)
def test_file_that_would_exhaust_the_parser_is_refused_with_its_line(
    text: str, says: str, as_viewer: APIClient, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(*_: Any, **__: Any) -> None:
        pytest.fail("nodes are made of it")

    monkeypatch.setattr(yaml, "compose", reached)  # which crashes the process on the first of these
    answer = as_viewer.post(FILE, json.dumps({"yaml": text, "dry_run": True}), content_type="application/json")
    assert (answer.status_code, answer.json()) == (400, {"yaml": [says]})


def test_aliases_count_at_each_use() -> None:
    queues = "".join(f"      q{number}: {{}}\n" for number in range(5000))
    hosts = "".join(f"  b{number}: *a\n" for number in range(5000))
    with pytest.raises(InvalidValue, match="more than 400,000 names and values"):
        policy_file.read(f"version: 1\nvirtualhosts:\n  a: &a\n    queues:\n{queues}{hosts}")


def test_file_of_ten_thousand_queues_is_within_the_limits() -> None:
    fields = "capacity_messages: 5, flow_control: off, capacity_bytes: 100"
    queues = "".join(f"      q{number}: {{{fields}}}\n" for number in range(10_000))
    assert len(policy_file.read(f"version: 1\nvirtualhosts:\n  a:\n    queues:\n{queues}")) == 10_000


def test_number_of_collected_file_errors_is_limited() -> None:
    with pytest.raises(InvalidValue) as refused:
        policy_file.read("version: 1\n" + "".join(f"a{number}: 1\n" for number in range(150_000)))
    assert len(refused.value.errors) == 101
    assert refused.value.errors["detail"] == "the file has more faults; these are the first 100"


@pytest.mark.domain("8 no input burns")
def test_file_of_another_broker_reports_some_missing_objects(as_viewer: APIClient, broker: Broker) -> None:
    broker.connected()
    queues = "".join(f"      q{number}: {{capacity_messages: 5}}\n" for number in range(3_000))
    text = f"version: 1\nvirtualhosts:\n  default:\n    queues:\n{queues}"
    answer = as_viewer.post(FILE, {"yaml": text, "dry_run": True}, format="json")
    assert answer.status_code == 200
    problems = answer.json()["problems"]
    assert len(problems) == 101
    assert problems[""] == "2,900 more objects do not exist"


# -- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("[" * 100_000, "detail", "line 1: more than 16 lists and objects inside each other"),
        ('{"a":' * 900 + "1" + "}" * 900, "detail", "line 1: more than 16 lists and objects inside each other"),
        ('{"reason": ' + "9" * 5000 + "}", "reason", "a whole number of more than 19 digits"),
        ('{"version": 9223372036854775808}', "version", "it must be from -2^63 to 2^63-1"),
        ('{"version": NaN}', "version", "it must be a finite number"),
        ('{"a": {"b": [1, Infinity]}}', "a.b.1", "it must be a finite number"),
        ('{"version": 1e999}', "version", "it must be a finite number"),
        ('{"reason": "a\\ud800b"}', "reason", "half a character (a surrogate) U+D800 as its character 2"),
        ('{"reason": "a\\u0000"}', "reason", "the control character U+0000"),
        ('{"reason": "a\\u202eb"}', "reason", "the control character U+202E"),
        ('{"name": "a\\u0000"}', "name", "the control character U+0000"),
        ('{"reason": "' + "x" * 1_000_000 + '"}', "reason", "1,000,000 characters: 1,000 at most"),
        ('{"name": "' + "x" * 5000 + '"}', "name", "5,000 characters: 4,000 at most"),
        ('{"\\ud800": 1}', "\\ud800", "half a character"),
        ("{" + ",".join(f'"f{number}": 1' for number in range(120_000)) + "}", "detail", "120,000 fields: 1,000"),
        ("[" + ",".join("1" * 110_000) + "]", "detail", "110,000 values: 100,000 at most"),
        ('{"a', "detail", "JSON parse error"),
        ("", "detail", "JSON parse error"),
    ],
)
def test_json_above_the_limits_is_refused_with_its_field(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        read_json(text)
    assert list(refused.value.errors) == [field]
    assert says in refused.value.errors[field]


def test_json_within_the_limits_is_unchanged() -> None:
    deep = '"\\" [[[[[[[[[[[[[[[[[[ {"'
    text = f'{{"a": [1, -2.5, true, null, {deep}], "b": {{"c": -9223372036854775808}}, "é": "\\ud83d\\ude00"}}'
    assert read_json(text) == json.loads(text)


@pytest.mark.parametrize("quotes", ['"' + '\\"' * 500_000, "\\" * 500_000, '"\\' * 300_000])
def test_unterminated_strings_are_scanned_once(quotes: str) -> None:
    with pytest.raises(InvalidValue):  # with backtracking this would take hours
        read_json(quotes)


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("path", ["policies/preview/", "brokers/local/objects/", "stop-producers/", "history/what-if/"])
def test_deeply_nested_body_is_refused(path: str, as_viewer: APIClient, broker: Broker) -> None:
    for deep in ("[" * 100_000, '{"changes":' + "[" * 900 + "]" * 900 + "}", '{"attributes":' + '{"a":' * 400):
        answer = as_viewer.post(f"/api/v1/{path}", deep, content_type="application/json")
        assert answer.status_code == 400
        assert "inside each other" in answer.json()["detail"][0]


@pytest.mark.domain("8 no input burns")
def test_suggestions_for_unknown_names_are_limited(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def near(name: str, *_: Any) -> list[str]:
        compared.append(name)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", near)
    body = {f"field{number}": 1 for number in range(900)}
    answer = as_viewer.post("/api/v1/policies/preview/", body, format="json")
    assert answer.status_code == 400
    assert len(answer.json()) == len(compared) == limits.NAMED
    nested = {"changes": [body, body]}
    assert as_viewer.post("/api/v1/policies/preview/", nested, format="json").status_code == 400
    assert len(compared) <= 3 * limits.NAMED
    compared.clear()
    assert as_viewer.get("/api/v1/audit/?" + "x" * 200 + "=1").status_code == 400
    assert compared == [], "a name of 200 characters is not a misspelling"


def test_name_of_two_megabytes_is_refused_with_a_short_message(as_viewer: APIClient) -> None:
    answer = as_viewer.post("/api/v1/policies/preview/", {"x" * 2_000_000: 1}, format="json")
    assert answer.status_code == 400
    assert len(answer.content) < 1000


# -- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [True, False])
async def test_reading_stops_when_the_body_is_too_large(said: bool) -> None:
    """Also without Content-Length."""
    sent: list[dict[str, Any]] = []
    taken = 0

    async def reading(_scope: Any, receive: Any, send: Any) -> None:
        nonlocal taken
        while (message := await receive())["type"] == "http.request":
            taken += len(message["body"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", b"1000000000000")] if said else []
    await limited(reading)({"path": "/api/v1/stop-producers/", "headers": headers}, receive, send)
    assert sent[0]["status"] == 413
    assert json.loads(sent[1]["body"])["detail"] == ["the body has more than 2,500,000 bytes"]
    assert taken <= (0 if said else limits.BODY)


def test_body_with_a_large_content_length_is_refused_before_it_is_read(as_viewer: APIClient) -> None:
    answer = as_viewer.post("/api/v1/stop-producers/", "x" * 2_600_000, content_type="application/json")
    assert answer.status_code == 413
    assert "detail" in answer.json()


@pytest.mark.parametrize("body", [b"\xff{}", '{"a": 1}'.encode("utf-16")])
def test_body_that_is_not_utf8_is_refused(body: bytes, as_viewer: APIClient) -> None:
    answer = as_viewer.generic("POST", "/api/v1/stop-producers/", body, content_type="application/json")
    assert answer.status_code == 400
    assert "detail" in answer.json()


@pytest.mark.parametrize("charset", ["rot13", "base64", "idna", "utf-7", '"hex"', "x" * 3000])
async def test_other_charset_is_refused(charset: str) -> None:
    """Django looks up the codec while it creates a request, before our code could handle the error."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    kind = f"application/json; charset={charset}".encode()
    scope = {"type": "http", "path": "/api/v1/me/", "headers": [(b"content-type", kind)]}
    await application(scope, None, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 415
    assert "utf-8" in json.loads(sent[1]["body"])["detail"][0]


# -- URLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("search=" + "x" * 5000, 400, "search"),
        ("search=%00", 400, "search"),
        ("%00=1", 400, "\\u0000"),
        ("search=" + "x" * 20_000, 414, "detail"),
        ("&".join(f"a{number}=1" for number in range(300)), 400, "detail"),
        ("page=" + "9" * 3000, 400, "page"),
        ("page=1_0", 400, "page"),
        ("page=%D9%A1", 400, "page"),
        ("page=1&page=2", 400, "page"),
    ],
)
def test_parameters_above_the_limits_are_refused_by_name(
    query: str, status: int, field: str, as_viewer: APIClient
) -> None:
    answer = as_viewer.get(f"/api/v1/audit/?{query}")
    assert answer.status_code == status
    assert list(answer.json()) == [field]


@pytest.mark.domain("8 answers are JSON")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing/", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/v1/selections/x/", 404),
        ("GET", "/api/v1/policies/bulk/one/", 404),
        ("GET", "/api/v1/audit/" + "9" * 400 + "/revert/", 404),
        ("POST", "/api/v1/queues/?x=1", 405),
        ("PUT", "/api/v1/queues/", 405),
        ("TRACE", "/api/v1/queues/?x=1", 405),
        ("PUT", "/api/v1/stop-producers/", 405),
        ("GET", "/api/v1/queues/%00/x/", 400),
    ],
)
def test_errors_of_the_api_are_json(method: str, path: str, status: int, as_viewer: APIClient) -> None:
    answer = as_viewer.generic(method, path, b'{"unknown": 1}', content_type="application/json")
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/json"
    assert isinstance(answer.json(), dict)


def test_server_error_of_the_api_is_json(as_viewer: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("console.api.me.MeView.get", broken)
    as_viewer.raise_request_exception = False
    answer = as_viewer.get("/api/v1/me/")
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/json")
    assert "detail" in answer.json()


def test_errors_of_pages_are_html(as_viewer: APIClient, broker: Broker) -> None:
    for path, status in (("/nothing/", 404), ("/audit/?search=%00", 400), ("/api/", 200)):
        answer = as_viewer.get(path)
        assert answer.status_code == status
        assert answer["Content-Type"].startswith("text/html")


def test_asgi_application_has_the_limits() -> None:
    assert routes.application_mapping["http"].__module__ == "console.intake.bodies"
