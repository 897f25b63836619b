"""The OpenAPI description is complete, and derived from the declared model."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from brokers.model import POLICY, TYPES


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("schema") / "schema.json"
    call_command("spectacular", "--validate", "--fail-on-warn", "--format", "openapi-json", "--file", str(path))
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


#: Calls without input.
BODYLESS = ("/again/", "/test/", "/secret/", "/pause/", "/go-on/", "/end/")


def test_every_call_has_a_summary_and_describes_its_answers(description: dict[str, Any]) -> None:
    calls = [
        (path, method, call)
        for path, methods in description["paths"].items()
        for method, call in methods.items()
        if path.startswith("/api/v1/")
    ]
    assert len(calls) >= 19
    for path, method, call in calls:
        assert call.get("summary"), (path, method)
        if method in ("post", "patch"):
            bodyless = path.endswith(BODYLESS) and not path.startswith("/api/v1/brokers/")
            assert ("requestBody" in call) != bodyless, (path, method)
        for status, answer in call["responses"].items():
            kinds = {"application/json", "application/octet-stream"} & set(answer.get("content", {}))
            assert status == "204" or all(answer["content"][kind]["schema"] for kind in kinds or [None]), (path, status)


def test_descriptions_of_calls_are_unique(description: dict[str, Any]) -> None:
    calls = [call for methods in description["paths"].values() for call in methods.values()]
    descriptions = Counter(call["description"] for call in calls if call.get("description"))
    assert len(descriptions) >= 25
    assert [words for words, times in descriptions.items() if times > 1] == []


@pytest.mark.parametrize("type_name", ["Queue", "Producer"])
def test_rows_have_every_declared_attribute_with_its_description(description: dict[str, Any], type_name: str) -> None:
    properties = description["components"]["schemas"][type_name]["properties"]
    for attribute in TYPES[type_name].attributes:
        assert attribute.description in properties[attribute.name]["description"]
        assert properties[attribute.name].get("nullable", False) is attribute.nullable


def test_change_of_a_policy_requires_its_version_and_takes_every_field(description: dict[str, Any]) -> None:
    change = description["components"]["schemas"]["PolicyChange"]
    assert change["required"] == ["version"]
    assert {attribute.name for attribute in POLICY} | {"version", "reason"} == set(change["properties"])


def test_conditions_have_the_declared_choices(description: dict[str, Any]) -> None:
    parameters = {each["name"]: each for each in description["paths"]["/api/v1/queues/"]["get"]["parameters"]}
    assert set(parameters) >= {"broker", "state", "virtualhost", "search", "sort", "page", "page_size"}
    assert "OVERFULL" in parameters["state"]["schema"]["items"]["enum"]


@pytest.mark.django_db
def test_description_requires_sign_in(as_viewer: APIClient) -> None:
    assert as_viewer.get("/api/schema/?format=json").json()["info"]["title"] == "Headgate"
    assert APIClient().get("/api/schema/?format=json").status_code == 401


@pytest.mark.parametrize(
    ("schema", "old", "new"),
    [
        ("TimelineEntry", "told_by", "source"),
        ("Rule", "tell_resolved", "send_resolved"),
        ("RuleGiven", "tell_resolved", "send_resolved"),
        ("RuleChange", "tell_resolved", "send_resolved"),
        ("Why", "asked", "object"),
        ("Why", "says", "summary"),
        ("ChangePreview", "held", "blocked"),
        ("Series", "held", "continuous"),
        ("HistoryJobRequest", "asked", "requested"),
        ("HistoryJobRequest", "asked_by", "requested_by"),
        ("HistoryStatus", "chores", "maintenance"),
    ],
)
def test_renamed_field_is_described_beside_its_deprecated_name(
    description: dict[str, Any], schema: str, old: str, new: str
) -> None:
    properties = description["components"]["schemas"][schema]["properties"]
    assert properties[old]["deprecated"] is True
    assert "deprecated" not in properties[new]


@pytest.mark.parametrize("path", ["/api/v1/timeline/", "/api/v1/timeline/download/"])
def test_renamed_parameter_is_described_beside_its_deprecated_name(description: dict[str, Any], path: str) -> None:
    parameters = {each["name"]: each for each in description["paths"][path]["get"]["parameters"]}
    assert parameters["told_by"]["deprecated"] is True
    assert not parameters["source"].get("deprecated")
