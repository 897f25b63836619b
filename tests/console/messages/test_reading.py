"""Lists of messages without bodies, and bodies for message readers alone, by every way and always audited."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from brokers.model import TYPES, object_name
from console.access import administration
from console.access.actor import Actor
from console.audit.models import AuditEntry
from console.links.registry import link
from console.live.watching import _KINDS
from console.operations import messages
from console.permissions.rights import Grant, Role
from tests.console.conftest import Broker
from tests.console.messages.conftest import BODY, MESSAGES, ORDERS, SECRET, encoded, ids, listed, queue, with_role
from tests.console.other_kind import OtherKind

pytestmark = pytest.mark.django_db

QUERY = f"?object={quote(str(ORDERS), safe='')}"
OPERATION = f"/api/v1/brokers/local/objects/{quote(str(ORDERS), safe='')}/operations"
JMX = 'headgate:type=Queue,broker=local,virtualhost="default",name="orders"'


def content(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def jolokia(client: Client, operation: str, *arguments: Any) -> dict[str, Any]:
    request = {"type": "exec", "mbean": JMX, "operation": operation, "arguments": list(arguments)}
    answer = client.post("/jolokia/", json.dumps(request), content_type="application/json").json()
    assert isinstance(answer, dict)
    return answer


def by_token(name: str, *grants: Grant, owner: User | None = None) -> Client:
    user = owner or User.objects.get(username=name)
    _, secret = administration.create_token(Actor(user), name, grants, days=30)
    return Client(HTTP_AUTHORIZATION=f"Bearer {secret}")


# -- lists ------------------------------------------------------------------------------------------------------------


def test_viewer_lists_messages_in_pages_without_bodies(vera: APIClient) -> None:
    rows = listed(vera, count=4)
    assert [row["application_properties"]["n"] for row in rows] == list(range(10))
    assert [row["position"] for row in rows] == list(range(1, 11))
    assert "grün" not in json.dumps(rows, ensure_ascii=False)
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"property": "n=3"}, [3]),
        ({"property": ["n=3", f"subject={SECRET}"]}, [3]),
        ({"property": ["n=3", "subject=other"]}, []),
        ({"selector": "n > 6"}, [7, 8, 9]),
        ({"selector": "n > 6", "property": "n=8"}, [8]),
        ({"min_size": "100000"}, []),
        ({"max_size": "100000"}, list(range(10))),
        ({"state": "delayed"}, []),
        ({"min_redeliveries": "1"}, []),
        ({"older_than": "1h"}, []),
        ({"newer_than": "1h"}, list(range(10))),
        ({"reason": "rejected"}, []),
    ],
    ids=str,
)
def test_messages_are_filtered(vera: APIClient, query: dict[str, Any], found: list[int]) -> None:
    assert [row["application_properties"]["n"] for row in listed(vera, **query)] == found


def test_list_returns_the_filter_as_the_operations_read_it(vera: APIClient, olga: APIClient) -> None:
    query = {"object": str(ORDERS), "older_than": "0ms", "property": ["n=3"], "max_size": "5000", "selector": "n < 5"}
    match = vera.get(MESSAGES, query).json()["match"]
    assert match == {"properties": {"n": "3"}, "selector": "n < 5", "older_than_ms": 0, "max_bytes": 5000}
    body = {"object": str(ORDERS), "match": match, "preview": True}
    assert olga.post(f"{MESSAGES}delete/", body, format="json").json()["messages"] == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "object"),
        ("object=type%3DBroker", "object"),
        ("object=nonsense", "object"),
        ("{q}&older_than=soon", "older_than"),
        ("{q}&older_than=10", "older_than"),
        ("{q}&newer_than=-5m", "newer_than"),
        ("{q}&older_than=999999999999d", "older_than"),
        ("{q}&min_size=big", "min_size"),
        ("{q}&max_size=99999999999999999999", "max_size"),
        ("{q}&property=colour", "property"),
        ("{q}&property==x", "property"),
        ("{q}&property=n%3D1&property=n%3D2", "property"),
        ("{q}&state=lost", "state"),
        ("{q}&order=random", "order"),
        ("{q}&count=0", "count"),
        ("{q}&count=201", "count"),
        ("{q}&after=somewhere", "after"),
        ("{q}&selector=n+%3E", "selector"),
        ("{q}&min_size=1&min_size=2", "min_size"),
        ("{q}&subject=x", "subject"),
    ],
)
def test_wrong_parameter_is_refused_by_its_name(vera: APIClient, query: str, field: str) -> None:
    answer = vera.get(f"{MESSAGES}?{query.replace('{q}', QUERY[1:])}")
    assert (answer.status_code, list(answer.json())) == (400, [field]), answer.content


def test_missing_queue_and_message(vera: APIClient, reader: APIClient) -> None:
    nowhere = {"object": str(queue("nowhere"))}
    assert vera.get(MESSAGES, nowhere).status_code == 404
    assert reader.get(f"{MESSAGES}999-4-00000000/{QUERY}").status_code == 404
    assert reader.get(f"{MESSAGES}nonsense/{QUERY}").status_code in (400, 404)
    assert reader.get(f"{MESSAGES}1/{QUERY}&size=0").json().keys() == {"size"}
    assert reader.get(f"{MESSAGES}1/{QUERY}&offset=-1").json().keys() == {"offset"}


def test_search_that_takes_long_returns_what_it_has(
    vera: APIClient, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "SEARCH_SECONDS", 0.0)
    broker.do(lambda memory: memory.publish_encoded("later", *(encoded(properties={"n": n}) for n in range(3000))))
    rows = listed(vera, "later", property="n=2999")  # over several requests
    assert [row["application_properties"]["n"] for row in rows] == [2999]


# -- bodies -----------------------------------------------------------------------------------------------------------


def test_message_reader_reads_a_body_and_each_look_is_audited(reader: APIClient) -> None:
    first = ids(reader)[0]
    answer = reader.get(f"{MESSAGES}{first}/{QUERY}")
    shown = answer.json()
    assert (shown["body_kind"], shown["body_text"], shown["cut"]) == ("text", BODY.decode(), False)
    assert shown["message"]["properties"]["subject"] == SECRET
    assert answer["Cache-Control"] == "no-store"
    reader.get(f"{MESSAGES}{first}/{QUERY}")
    rows = list(AuditEntry.objects.all())
    assert [(row.user_name, row.operation, row.object, row.outcome) for row in rows] == [
        ("rita", "read-message", str(ORDERS), "done")
    ] * 2
    assert all(f'id: "{first}"' in row.detail for row in rows)


def test_part_of_a_body_is_text_although_its_ends_cut_characters(reader: APIClient) -> None:
    first = ids(reader)[0]
    euro = BODY.index("€".encode())
    for offset, size in ((0, euro + 1), (euro + 1, 100), (euro, 2), (0, BODY.index(b"\xc3") + 1)):
        shown = reader.get(f"{MESSAGES}{first}/{QUERY}&offset={offset}&size={size}").json()
        assert shown["body_text"] is not None
        assert shown["body_text"] in BODY.decode()
        assert shown["cut"] is (offset + size < len(BODY))


def test_bytes_that_are_no_text_are_shown_as_such(reader: APIClient, broker: Broker) -> None:
    broker.do(lambda memory: memory.publish_encoded("later", encoded(body=b"\xff\xfe\x00\x80", inferred=True)))
    (only,) = ids(reader, "later")
    shown = reader.get(f"{MESSAGES}{only}/", {"object": str(queue("later"))}).json()
    assert (shown["body_kind"], shown["body_text"], shown["body_bytes"]) == ("data", None, 4)


def test_whole_body_is_downloaded_in_parts_with_one_audit_row(
    reader: APIClient, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PART", 7)
    body = bytes(range(256)) * 3
    broker.do(lambda memory: memory.publish_encoded("later", encoded(body=body, inferred=True)))
    (only,) = ids(reader, "later")
    answer = reader.get(f"{MESSAGES}{only}/body/", {"object": str(queue("later"))})
    assert content(answer) == body
    assert (answer["Content-Type"], answer["Content-Length"]) == ("application/octet-stream", str(len(body)))
    assert answer["Content-Disposition"].startswith('attachment; filename="message-')
    assert AuditEntry.objects.get().operation == "read-message"


def test_download_of_a_message_that_is_consumed_meanwhile_ends_early(
    reader: APIClient, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "PART", 7)
    first = ids(reader)[0]
    answer = reader.get(f"{MESSAGES}{first}/body/{QUERY}")
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 10))
    parts: Iterator[bytes] = iter(answer.streaming_content)
    assert next(parts) == BODY[:7]
    with pytest.raises(Exception, match="is not in queue orders"):
        next(parts)


# -- no side door -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [role for role in Role if role not in (Role.MESSAGE_READER, Role.ADMIN)])
def test_no_other_role_reads_a_body_by_any_way(orders: Broker, role: Role) -> None:
    client = with_role("nina", role)
    first = ids(client)[0]
    answers = [
        client.get(f"{MESSAGES}{first}/{QUERY}"),
        client.get(f"{MESSAGES}{first}/body/{QUERY}"),
        client.get(f"{MESSAGES}{first}/body/{QUERY}&broker=local"),
        client.post(f"{OPERATION}/read-message/", {"arguments": {"id": first}}, format="json"),
    ]
    for answer in answers:
        assert (answer.status_code, SECRET in content(answer).decode()) == (403, False)
        assert "role of message reader for virtual host default" in answer.json()["detail"]
    token = by_token("nina", Grant(role))
    for operation in ("read-message", "read-message(java.lang.String,java.lang.Long,java.lang.Long)"):
        answer = jolokia(token, operation, first, 0, 1000)
        assert (answer["status"], "grün" in json.dumps(answer, ensure_ascii=False)) == (403, False)
    rows = AuditEntry.objects.filter(operation="read-message")
    assert {(row.user_name, row.outcome) for row in rows} == {("nina", "refused")}
    assert rows.count() == 6


def test_message_reader_reads_by_every_way_with_an_audit_row_each(reader: APIClient) -> None:
    """Without this, the other test would prove nothing."""
    first = ids(reader)[0]
    assert BODY in content(reader.get(f"{MESSAGES}{first}/body/{QUERY}"))
    assert reader.post(f"{OPERATION}/read-message/", {"arguments": {"id": first}}, format="json").json()["body"]
    assert jolokia(by_token("rita", Grant(Role.MESSAGE_READER)), "read-message", first, 0, 1000)["value"]["body"]
    assert AuditEntry.objects.filter(operation="read-message", outcome="done").count() == 3


def test_token_without_the_role_of_its_owner_reads_nothing(reader: APIClient) -> None:
    first = ids(reader)[0]
    token = by_token("rita", Grant(Role.VIEWER))
    assert token.get(f"{MESSAGES}{QUERY}").status_code == 200
    assert token.get(f"{MESSAGES}{first}/{QUERY}").status_code == 403


def test_socket_offers_no_operation_and_lists_no_messages() -> None:
    assert set(_KINDS) == {"overview", "queue", "why", "objects", "conditions", "client", *(set(_KINDS) & {"fleet"})}


def test_every_operation_with_a_body_declares_its_role() -> None:
    reads = [o for o in TYPES["Queue"].operations if "body" in {each.name for each in o.returns}]
    assert [(o.name, o.role) for o in reads] == [("read-message", "message-reader")]


def test_role_of_one_virtual_host_ends_there(orders: Broker, reader: APIClient) -> None:
    options = {"create_on_attach": True, "anonymous": True}
    link().call(lambda admin: admin.create(object_name("VirtualHost", name="blue"), options))
    hidden = queue("orders", "blue")
    link().call(lambda admin: admin.create(hidden, {}))
    orders.do(lambda memory: memory.publish_encoded("orders", encoded(), virtualhost="blue"))
    link().call(lambda admin: admin.create(queue("hidden-source", "blue"), {"dead_letter_queue": "orders"}))
    theirs = {"object": str(hidden)}
    (first,) = (row["id"] for row in reader.get(MESSAGES, theirs).json()["results"])
    narrow = with_role("nora", Role.MESSAGE_READER, Role.OPERATOR, virtualhost="default")
    assert narrow.get(f"{MESSAGES}{ids(narrow)[0]}/{QUERY}").status_code == 200
    assert narrow.get(MESSAGES, theirs).status_code == 404
    for client, dead in ((reader, {str(hidden), str(queue("dead"))}), (narrow, {str(queue("dead"))})):
        assert {row["object"] for row in client.get("/api/v1/dead-letters/").json()["results"]} == dead
    assert narrow.get(f"{MESSAGES}summary/", theirs).status_code == 404
    assert narrow.get(f"{MESSAGES}{first}/", theirs).status_code == 403
    assert narrow.get(f"{MESSAGES}{first}/body/", theirs).status_code == 403
    act = {**theirs, "ids": [first], "to": "later"}
    assert narrow.post(f"{MESSAGES}move/", act, format="json").status_code == 403
    assert narrow.post(f"{MESSAGES}move/", {**act, "preview": True}, format="json").status_code == 404


def test_neither_audit_trail_nor_log_has_contents(
    reader: APIClient, olga: APIClient, paul: APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    first, second, *_ = ids(reader)
    reader.get(f"{MESSAGES}{first}/{QUERY}")
    content(reader.get(f"{MESSAGES}{first}/body/{QUERY}"))
    reader.post(f"{OPERATION}/read-message/", {"arguments": {"id": first}}, format="json")
    secret = {"subject": SECRET}
    for given in ({}, {"properties": {"subject": [SECRET]}}, {"priority": 9, "properties": {SECRET: SECRET}}):
        request = {"object": str(ORDERS), "body": SECRET, "properties": secret, **given}
        paul.post(f"{MESSAGES}publish/", {**request, "application_properties": {SECRET: SECRET}}, format="json")
    for body in (SECRET, 5, "aHVzaC1odXNo"):
        arguments = {"body": body, "properties": SECRET, "application_properties": secret, "colour": SECRET}
        paul.post(f"{OPERATION}/publish-message/", {"arguments": arguments}, format="json")
    olga.post(f"{MESSAGES}move/", {"object": str(ORDERS), "ids": [first], "to": "later"}, format="json")
    olga.post(f"{OPERATION}/delete-messages/", {"arguments": {"ids": [second]}}, format="json")
    rows = [str({**vars(row), "_state": ""}) for row in AuditEntry.objects.all()]
    assert len(rows) == 11
    for text in (*rows, *(record.getMessage() for record in caplog.records)):
        assert SECRET not in text
        assert "aHVzaC1odXNo" not in text


# -- other brokers ----------------------------------------------------------------------------------------------------


def test_broker_without_the_operations_is_named_in_one_sentence(broker: Broker) -> None:
    broker.wrap = OtherKind
    broker.memory.management.create(ORDERS, {})
    broker.connected()
    client = with_role("ada", Role.ADMIN)
    act = {"object": str(ORDERS), "ids": ["1-4-00000000"], "to": "b"}
    answers = [
        client.get(f"{MESSAGES}{QUERY}"),
        client.get(f"{MESSAGES}1/{QUERY}"),
        client.get(f"{MESSAGES}1/body/{QUERY}"),
        client.get(f"{MESSAGES}summary/{QUERY}"),
        client.get("/api/v1/dead-letters/"),
        client.post(f"{MESSAGES}publish/", {"object": str(ORDERS), "body": "x"}, format="json"),
        client.post(f"{MESSAGES}move/", act, format="json"),
        client.post(f"{MESSAGES}move/", {**act, "preview": True}, format="json"),
        client.post(f"{MESSAGES}delete/", {"object": str(ORDERS), "match": {}}, format="json"),
    ]
    for answer in answers:
        assert (answer.status_code, "Local broker does not" in answer.json()["detail"]) == (409, True), answer.content


def test_lost_broker_is_reported_as_unreachable(reader: APIClient, orders: Broker) -> None:
    first = ids(reader)[0]
    orders.lose()
    for path in (f"{MESSAGES}{QUERY}", f"{MESSAGES}{first}/{QUERY}", "/api/v1/dead-letters/"):
        assert reader.get(path).status_code == 503, path
