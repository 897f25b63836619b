"""Saved selections: ownership, evaluation, and stops by them."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from console.audit.models import AuditEntry
from console.operations import selections
from console.selections.models import SavedSelection
from tests.console.conftest import Broker, until

pytestmark = pytest.mark.django_db

PATH = "/api/v1/selections/"


@pytest.fixture
def queues(broker: Broker) -> Broker:
    for name in ("orders.eu", "orders.us", "prices"):
        broker.do(lambda memory, name=name: memory.attach_producer(name))  # type: ignore[misc]
    until(lambda: broker.connected().queue_count == 3)
    return broker


def object_of(name: str) -> str:
    return f"type=Queue,virtualhost=default,name={name}"


def saved(client: APIClient, **given: Any) -> dict[str, Any]:
    answer = client.post(PATH, {"name": "shop", "search": "orders", **given}, format="json")
    assert answer.status_code == 201, answer.json()
    return dict(answer.json())


def test_private_selection_is_visible_to_its_owner_and_a_shared_one_to_all(
    queues: Broker, as_operator: APIClient, as_viewer: APIClient
) -> None:
    private, shared = saved(as_operator), saved(as_operator, name="all of it", shared=True)
    assert [each["name"] for each in as_operator.get(PATH).json()] == ["all of it", "shop"]
    assert [(each["name"], each["owner"], each["own"]) for each in as_viewer.get(PATH).json()] == [
        ("all of it", "olga", False)
    ]
    assert as_viewer.get(f"{PATH}{private['id']}/").status_code == 404
    assert as_viewer.delete(f"{PATH}{shared['id']}/").status_code == 403
    assert len(as_operator.get(PATH).json()) == 2


def test_name_that_another_request_takes_meanwhile_is_refused(
    queues: Broker, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = saved(as_operator), saved(as_operator, name="second")
    monkeypatch.setattr(selections, "_must_be_free", lambda *_: None)  # as if both had looked before either stored
    given = {"name": first["name"], "search": "prices"}
    for answer in (
        as_operator.post(PATH, given, format="json"),
        as_operator.patch(f"{PATH}{second['id']}/", given, format="json"),
    ):
        assert answer.status_code == 409
        assert "already have a selection 'shop'" in answer.json()["detail"]
    assert [each["search"] for each in as_operator.get(PATH).json()] == ["orders", "orders"]


def test_viewer_can_save_private_but_not_shared_selections(queues: Broker, as_viewer: APIClient) -> None:
    assert as_viewer.post(PATH, {"name": "a", "search": "o", "shared": True}, format="json").status_code == 403
    mine = saved(as_viewer)
    assert as_viewer.patch(f"{PATH}{mine['id']}/", {"shared": True}, format="json").status_code == 403
    assert as_viewer.patch(f"{PATH}{mine['id']}/", {"name": "else"}, format="json").json()["name"] == "else"


def test_stop_by_a_filter_evaluates_it_at_that_time(queues: Broker, as_operator: APIClient) -> None:
    number = saved(as_operator)["id"]
    queues.do(lambda memory: memory.attach_producer("orders.asia"))
    until(lambda: queues.link.queue_count == 4)
    aim = {"scope": "type=Broker", "selection": number}
    preview = as_operator.post("/api/v1/stop-producers/preview/", aim, format="json").json()
    assert preview["objects"] == [object_of(f"orders.{place}") for place in ("asia", "eu", "us")]
    answer = as_operator.post("/api/v1/stop-producers/", {**aim, "reason": "a look"}, format="json").json()
    assert (answer["queues"], answer["producers"]) == (3, 3)
    started = as_operator.post("/api/v1/start-producers/", {**aim, "reason": "seen"}, format="json").json()
    assert started["queues"] == 3


def test_quick_filters_are_part_of_a_selection_and_evaluated_with_it(queues: Broker, as_operator: APIClient) -> None:
    queues.do(lambda memory: memory.attach_consumer("orders.asia"))
    until(lambda: (queues.link.queue(object_of("orders.asia")) or {}).get("consumers") == 1)
    made = saved(as_operator, states=["NORMAL"], only=["no-consumers"])
    assert (made["states"], made["only"]) == (["NORMAL"], ["no-consumers"])
    aim = {"scope": "type=Broker", "selection": made["id"]}
    preview = as_operator.post("/api/v1/stop-producers/preview/", aim, format="json").json()
    assert preview["objects"] == [object_of("orders.eu"), object_of("orders.us")]
    row = AuditEntry.objects.get(operation="save-selection")
    assert (row.after["states"], row.after["only"]) == (["NORMAL"], ["no-consumers"])
    path = f"{PATH}{made['id']}/"
    changed = as_operator.patch(path, {"states": ["STOPPED"]}, format="json").json()
    assert (changed["states"], changed["only"]) == (["STOPPED"], ["no-consumers"])
    changed = as_operator.patch(path, {"only": ["blocked", "nearly-full"]}, format="json").json()
    assert (changed["states"], changed["only"], changed["search"]) == (
        ["STOPPED"],
        ["blocked", "nearly-full"],
        "orders",
    )
    assert as_operator.get(path).json() == changed


def test_quick_filter_alone_is_a_selection_and_an_unknown_one_is_refused(
    queues: Broker, as_operator: APIClient
) -> None:
    assert saved(as_operator, search="", only=["no-consumers"])["only"] == ["no-consumers"]
    for wrong in (["STOPPED"], ["colour"], "blocked", [1]):
        answer = as_operator.post(PATH, {"name": "b", "search": "o", "only": wrong}, format="json")
        assert (answer.status_code, list(answer.json())) == (400, ["only"])
    empty = as_operator.post(PATH, {"name": "c", "search": "", "states": [], "only": []}, format="json")
    assert empty.status_code == 400


def test_deleted_queues_of_a_selection_are_omitted(queues: Broker, as_operator: APIClient) -> None:
    names = [object_of("prices"), object_of("gone")]
    made = saved(as_operator, search="", queues=names)
    assert made["queues"] == [object_of("prices")]
    preview = as_operator.post(
        "/api/v1/stop-producers/preview/", {"scope": "type=Broker", "selection": made["id"]}, format="json"
    ).json()
    assert preview["objects"] == [object_of("prices")]


def test_viewer_cannot_stop_by_a_selection(queues: Broker, as_operator: APIClient, as_viewer: APIClient) -> None:
    number = saved(as_operator, shared=True)["id"]
    body = {"scope": "type=Broker", "selection": number, "reason": "no"}
    assert as_viewer.post("/api/v1/stop-producers/", body, format="json").status_code == 403


def test_every_attempt_writes_an_audit_row(queues: Broker, as_operator: APIClient, as_viewer: APIClient) -> None:
    number = saved(as_operator, shared=True)["id"]
    as_operator.patch(f"{PATH}{number}/", {"search": "prices"}, format="json")
    as_viewer.delete(f"{PATH}{number}/")
    as_operator.delete(f"{PATH}{number}/")
    rows = AuditEntry.objects.order_by("pk").values_list("user_name", "object", "operation", "outcome")
    assert list(rows) == [
        ("olga", "selection shop", "save-selection", "done"),
        ("olga", "selection shop", "change-selection", "done"),
        ("vera", "selection shop", "delete-selection", "refused"),
        ("olga", "selection shop", "delete-selection", "done"),
    ]
    changed = AuditEntry.objects.get(operation="change-selection")
    assert changed.before is not None
    assert changed.after is not None
    assert (changed.before["search"], changed.after["search"]) == ("orders", "prices")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"name": " "}, "name"),
        ({"name": None}, "name"),
        ({"states": ["ODD"]}, "states"),
        ({"states": 5}, "states"),
        ({"queues": []}, "queues"),
        ({"queues": ["type=Broker"]}, "queues"),
        ({"queues": [5]}, "queues"),
        ({"search": ""}, "search"),
        ({"shared": "yes"}, "shared"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_invalid_selection_is_refused_with_the_wrong_field(
    queues: Broker, as_operator: APIClient, given: dict[str, Any], named: str
) -> None:
    answer = as_operator.post(PATH, {"name": "shop", "search": "orders", **given}, format="json")
    assert answer.status_code == 400
    assert named in answer.json()
    assert as_operator.get(PATH).json() == []


def test_name_that_is_taken_is_refused(queues: Broker, as_operator: APIClient) -> None:
    saved(as_operator)
    assert as_operator.post(PATH, {"name": "shop", "search": "a"}, format="json").status_code == 409


@pytest.mark.parametrize("number", ["1", True, 10**30, -4])
def test_stop_by_an_invalid_selection_number_is_refused(queues: Broker, as_operator: APIClient, number: Any) -> None:
    body = {"scope": "type=Broker", "selection": number, "reason": "no"}
    assert as_operator.post("/api/v1/stop-producers/", body, format="json").status_code in (400, 404)


@pytest.mark.parametrize("emptied", [{"search": ""}, {"search": "  "}, {"search": "", "states": [], "only": []}])
def test_change_that_would_empty_the_filter_is_refused_and_changes_nothing(
    queues: Broker, as_operator: APIClient, emptied: dict[str, Any]
) -> None:
    made = saved(as_operator)
    path = f"{PATH}{made['id']}/"
    answer = as_operator.patch(path, {**emptied, "name": "renamed"}, format="json")
    assert (answer.status_code, list(answer.json())) == (400, ["search"])
    assert as_operator.get(path).json() == made
    assert AuditEntry.objects.latest("pk").outcome == "refused"
    aim = {"scope": "type=Broker", "selection": made["id"]}
    preview = as_operator.post("/api/v1/stop-producers/preview/", aim, format="json").json()
    assert preview["objects"] == [object_of("orders.eu"), object_of("orders.us")]


def test_filter_is_replaced_by_another_one_in_one_change(queues: Broker, as_operator: APIClient) -> None:
    path = f"{PATH}{saved(as_operator)['id']}/"
    changed = as_operator.patch(path, {"search": "", "only": ["no-consumers"]}, format="json").json()
    assert (changed["search"], changed["only"]) == ("", ["no-consumers"])
    assert as_operator.patch(path, {"only": []}, format="json").status_code == 400
    named = as_operator.patch(path, {"only": [], "queues": [object_of("prices")]}, format="json").json()
    assert named["queues"] == [object_of("prices")]
    assert as_operator.patch(path, {"queues": None}, format="json").status_code == 400
    assert as_operator.patch(path, {"queues": None, "search": " orders "}, format="json").json()["search"] == "orders"


@pytest.mark.parametrize("search", ["", "  "])
def test_selection_that_an_earlier_release_emptied_stops_nothing_and_can_be_given_a_filter(
    queues: Broker, as_operator: APIClient, search: str
) -> None:
    number = saved(as_operator)["id"]
    SavedSelection.objects.update(search=search)
    body = {"scope": "type=Broker", "selection": number, "reason": "by mistake"}
    for call in ("preview/", ""):
        answer = as_operator.post(f"/api/v1/stop-producers/{call}", body, format="json")
        assert (answer.status_code, list(answer.json())) == (400, ["selection"]), answer.json()
    assert not any(row["state"] == "STOPPED" for row in queues.link.queues())
    path = f"{PATH}{number}/"
    assert as_operator.patch(path, {"name": "all of them"}, format="json").json()["name"] == "all of them"
    assert as_operator.patch(path, {"search": "prices"}, format="json").status_code == 200
    assert as_operator.post("/api/v1/stop-producers/", body, format="json").json()["queues"] == 1


def test_blanks_alone_are_no_filter(queues: Broker, as_operator: APIClient) -> None:
    assert as_operator.post(PATH, {"name": "a", "search": "  "}, format="json").status_code == 400
