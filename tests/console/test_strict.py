"""Calls refuse parameters and fields that they do not declare, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.urls import URLResolver
from drf_spectacular.views import SpectacularAPIView
from rest_framework.test import APIClient
from rest_framework.views import APIView

from brokers.model import object_name
from console.api.strict import StrictAPIView
from console.api.urls import urlpatterns
from console.audit.models import AuditEntry
from tests.console.conftest import Broker

pytestmark = pytest.mark.django_db

ORDERS = object_name("Queue", virtualhost="default", name="orders")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("history/top/?form=1", {"form": ["there is no parameter form: did you mean from?"]}),
        (
            "conditions/?x=1&broker=local",
            {
                "x": [
                    "there is no parameter x: parameters are broker, object, kind, severity, search, page and page_size"
                ]
            },
        ),
        ("me/?verbose=1", {"verbose": ["there is no parameter verbose: this call has no parameters"]}),
        ("queues/?stat=OVERFULL", {"stat": ["stat is not an attribute of Queue"]}),
    ],
)
def test_unknown_parameter_is_refused_by_name(path: str, says: dict[str, Any], as_viewer: APIClient) -> None:
    answer = as_viewer.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()) == (400, says)


def test_unknown_parameter_is_refused_before_a_change(as_operator: APIClient) -> None:
    answer = as_operator.delete("/api/v1/brokers/local/objects/type=Queue,virtualhost=default,name=x/?versoin=1")
    assert answer.status_code == 400
    assert answer.json() == {"versoin": ["there is no parameter versoin: did you mean version?"]}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "stop-producers/",
            {"scope": "type=Broker", "reason": "a leak", "for_s": 60},
            {"for_s": ["there is no field for_s: did you mean for_ms?"]},
        ),
        (
            "policies/bulk/",
            {"selection": {"object": []}, "attributes": {"capacity_messages": 1}},
            {"object": ["there is no field object: did you mean objects?"]},
        ),
        (
            "policies/preview/",
            {"changes": [{"object": "type=Broker", "atributes": {}}], "large": 1},
            {
                "large": ["there is no field large: did you mean largest?"],
                "atributes": ["there is no field atributes: did you mean attributes?"],
            },
        ),
        (
            "stop-producers/preview/?brokr=local",
            {"scope": "type=Broker", "match": {"state": []}},
            {
                "brokr": ["there is no parameter brokr: did you mean broker?"],
                "state": ["there is no field state: did you mean states?"],
            },
        ),
    ],
)
def test_unknown_field_is_refused_by_name_and_nothing_changes(
    path: str, body: dict[str, Any], says: dict[str, Any], as_operator: APIClient, broker: Broker
) -> None:
    before = broker.memory.engine.last_event
    answer = as_operator.post(f"/api/v1/{path}", body, format="json")
    assert (answer.status_code, answer.json()) == (400, says)
    assert broker.memory.engine.last_event == before
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("only", ["true", "false", 1, 0, [], {}])
def test_non_boolean_only_lifts_no_nested_stop(only: Any, as_operator: APIClient, broker: Broker) -> None:
    """The text "true" once counted as false, and lifted nested stops."""
    broker.do(lambda memory: memory.management.create(ORDERS, {}))
    for scope in ("type=Broker", str(ORDERS)):
        body = {"scope": scope, "reason": "an incident"}
        assert as_operator.post("/api/v1/stop-producers/", body, format="json").status_code == 200
    answer = as_operator.post(
        "/api/v1/start-producers/", {"scope": "type=Broker", "reason": "over", "only": only}, format="json"
    )
    assert answer.status_code == 400
    assert answer.json() == {"only": [f"only is {only!r}: it must be true or false"]}
    assert len(broker.do(lambda memory: memory.management.read(object_name("Broker"))["stops"])) == 2


def test_nested_types_are_checked(as_operator: APIClient) -> None:
    answer = as_operator.post(
        "/api/v1/stop-producers/", {"scope": "type=Broker", "reason": "x", "queues": ["a", 5]}, format="json"
    )
    assert answer.json() == {"queues": ["queues, item 2: queues is 5: it must be text"]}


def test_anonymous_user_gets_no_field_names(client: Any) -> None:
    assert client.get("/api/v1/history/top/?form=1").status_code == 401


def test_every_call_of_the_api_is_strict() -> None:
    views = list(views_of(urlpatterns))
    assert len(views) > 50
    assert [view for view in views if not issubclass(view, (StrictAPIView, SpectacularAPIView))] == []


def views_of(patterns: Sequence[Any]) -> Iterator[type[APIView]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from views_of(pattern.url_patterns)
        elif hasattr(pattern.callback, "cls"):
            yield pattern.callback.cls


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "stop-producers/",
            {"scope": "type=Broker", "reason": "a leak", "for_ms": -1},
            {"for_ms": ["for_ms is -1: it must be a whole number of 0 or more"]},
        ),
        (
            "stop-producers/",
            {"reason": "a leak"},
            {"scope": ["scope is missing: Object name of the broker"]},
        ),
        (
            "start-producers/",
            {"scope": "type=Broker", "reason": "over", "only": None},
            {"only": ["only is null: it must be true or false"]},
        ),
        (
            "policies/preview/",
            {"changes": [{"object": "type=Broker"}, {"object": "type=Broker", "action": "drop"}]},
            {"action": ["changes, item 2: action is 'drop': it must be one of update, create, delete"]},
        ),
        ("policies/preview/", {"changes": []}, {"changes": ["changes has 0 items: it must have at least one"]}),
        ("policies/file/", {"dry_run": True}, {"yaml": ["yaml is missing: Policy file, as of `headgate policies`."]}),
        (
            "selections/",
            {"name": "x" * 81, "states": ["OVERFULL", "FULL"]},
            {
                "name": ["name has 81 characters: it must have at most 80"],
                "states": ["states, item 2: states is 'FULL': it must be one of"],
            },
        ),
        (
            "schedules/preview/",
            {"zone": "", "minute": "5"},
            {"zone": ["zone is empty: Time zone, such as Europe/Paris."]},
        ),
    ],
)
def test_schema_violation_is_reported_with_field_and_value(
    path: str, body: dict[str, Any], says: dict[str, list[str]], as_operator: APIClient
) -> None:
    answer = as_operator.post(f"/api/v1/{path}", body, format="json")
    assert answer.status_code == 400
    errors = answer.json()
    assert errors.keys() == says.keys()
    for field, [beginning] in says.items():
        assert errors[field][0].startswith(beginning)


def test_omitted_fields_have_defaults_and_text_is_not_trimmed(as_operator: APIClient, broker: Broker) -> None:
    body = {"scope": "type=Broker", "reason": "  a leak  ", "for_ms": None}
    assert as_operator.post("/api/v1/stop-producers/", body, format="json").status_code == 200
    [stop] = broker.do(lambda memory: memory.management.read(object_name("Broker"))["stops"])
    assert stop["reason"] == "a leak"
    refused = as_operator.post("/api/v1/stop-producers/", {**body, "scope": " type=Broker"}, format="json")
    assert refused.status_code == 400
