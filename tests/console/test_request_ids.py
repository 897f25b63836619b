"""The id of a request: in its response, in the records that it causes, and in the audit trail, also through tasks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from brokers import log_records
from brokers.log_records import Formatter
from brokers.model import object_name
from console import celery as console_celery
from console.audit.models import AuditEntry
from console.intake.request_ids import with_request_id
from tests.console.conftest import Broker, until
from tests.console.websocket import WebSocket

pytestmark = pytest.mark.django_db

SEEN = logging.getLogger("console.test_request_ids")


@pytest.fixture
def records() -> Iterator[list[dict[str, Any]]]:
    """What the loggers of the console write, as JSON."""
    found: list[dict[str, Any]] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(self.format(record)))

    handler = Collect()
    handler.setFormatter(Formatter())
    loggers = [logging.getLogger(name) for name in ("console", "console.audit", "console.intake.request_ids")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.INFO)
    loggers[0].addHandler(handler)
    before = log_records.replace_fields({})
    yield found
    log_records.replace_fields(before)
    loggers[0].removeHandler(handler)
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


async def answered(given: list[bytes], path: str = "/x", status: int = 200, fails: bool = False) -> list[bytes]:
    """Return the ids in the response of an application that logs one record."""

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        SEEN.warning("handled")
        if fails:
            raise ValueError("no")
        own = [(b"X-Request-ID", b"of-the-application"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": status, "headers": own})
        await send({"type": "http.response.body", "body": b""})

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"code=hush",
             "headers": [(b"x-request-id", each) for each in given]}  # fmt: skip
    sent = ApplicationCommunicator(with_request_id(application), scope)
    await sent.send_input({"type": "http.request"})
    start = await sent.receive_output(5)
    await sent.wait()
    return [value for name, value in start["headers"] if name.lower() == b"x-request-id"]


@pytest.mark.parametrize("text", [b"abc-1", b"Root=1-67891233-abcdef012345678912345678", b"a/b+c=@.:_", b"x" * 64])
async def test_id_of_a_proxy_is_used(records: list[dict[str, Any]], text: bytes) -> None:
    assert await answered([text]) == [text]
    assert {each["request_id"] for each in records} == {text.decode()}


@pytest.mark.parametrize(
    "given",
    [[], [b""], [b"x" * 65], [b'a"b'], [b"a b"], [b"a\nb"], [b"a\x1b[2J"], [b"\xff"], [b"-a"], [b"a", b"b"], [b"<b>"]],
)
async def test_unsafe_or_ambiguous_id_is_replaced(records: list[dict[str, Any]], given: list[bytes]) -> None:
    (made,) = await answered(given)
    assert len(made) == 32
    assert made.isalnum()
    assert (await answered(given))[0] != made
    assert [each["request_id"] for each in records][:2] == [made.decode()] * 2


async def test_record_of_a_request_has_no_parameters(records: list[dict[str, Any]]) -> None:
    await answered([b"r-1"], path='/a"\nb', status=404)
    (found,) = [each for each in records if "status" in each]
    assert (found["method"], found["path"], found["status"]) == ("GET", '/a"\nb', 404)
    assert "hush" not in str(records)


async def test_probes_and_files_have_no_records_unless_they_fail(records: list[dict[str, Any]]) -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/static/x.js"):
        await answered([], path=path)
    assert [each for each in records if "status" in each] == []
    await answered([], path="/readyz", status=503)
    assert [each["path"] for each in records if "status" in each] == ["/readyz"]


async def test_records_after_an_exception_have_the_id_too(records: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="no"):
        await answered([b"r-2"], fails=True)
    assert [each["request_id"] for each in records] == ["r-2", "r-2"]
    assert records[-1]["message"].endswith("no response")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_every_answer_of_the_console_has_an_id() -> None:
    from console.asgi import application

    for path, length in (("/login/", b"0"), ("/nowhere", b"0"), ("/api/v1/me/", b"0"), ("/api/v1/me/", b"99999999")):
        headers = [(b"host", b"localhost"), (b"content-length", length), (b"x-request-id", b"r-3")]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
        sent = ApplicationCommunicator(application, scope)
        await sent.send_input({"type": "http.request", "body": b""})
        start = await sent.receive_output(30)
        assert (b"x-request-id", b"r-3") in start["headers"], path


async def test_websocket_has_an_id(records: list[dict[str, Any]]) -> None:
    async def application(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        SEEN.warning("connected")
        await send({"type": "websocket.accept"})

    socket = WebSocket(with_request_id(application), headers=[("x-request-id", "r-4")])
    await socket.send_input({"type": "websocket.connect"})
    accepted = await socket.receive_output(5)
    assert accepted["headers"] == [(b"x-request-id", b"r-4")]
    await socket.wait()
    assert [each["request_id"] for each in records] == ["r-4", "r-4"]
    assert records[-1]["method"] == "WEBSOCKET"


# -- the audit trail --------------------------------------------------------------------------------------------------


def test_a_record_of_the_log_leads_to_the_audit_entry_and_back(
    broker: Broker, records: list[dict[str, Any]], as_operator: APIClient
) -> None:
    broker.memory.management.create(object_name("Queue", virtualhost="default", name="orders"), {})
    broker.connected()
    until(lambda: broker.link.queue_count == 1)
    hostile = 'over", "outcome": "refused"}'
    with log_records.fields(request_id="r-5"):
        answer = as_operator.post("/api/v1/stop-producers/", {"scope": "type=Broker", "reason": hostile}, format="json")
    assert answer.status_code == 200
    (found,) = [each for each in records if each["logger"] == "console.audit"]
    entry = AuditEntry.objects.get(pk=found["audit_entry"])
    assert (entry.request_id, found["request_id"]) == ("r-5", "r-5")
    assert (found["user"], found["operation"], found["outcome"]) == ("olga", "stop-producers", "done")
    listed = as_operator.get("/api/v1/audit/?request=r-5").json()
    assert [(row["id"], row["request_id"]) for row in listed["results"]] == [(entry.pk, "r-5")]
    assert as_operator.get("/api/v1/audit/?request=r-6").json()["count"] == 0
    assert as_operator.get("/api/v1/audit/?search=r-5").json()["count"] == 1
    assert '"request_id": "r-5"' in b"".join(as_operator.get("/api/v1/audit/file/?as=json")).decode()


def test_audit_page_shows_the_request(operator: User, broker: Broker) -> None:
    broker.connected()
    with log_records.fields(request_id="r-7"):
        AuditEntry(user_name="olga", broker="local", object="type=Broker", operation="update", outcome="done").save()
    client = Client()
    client.force_login(operator)
    page = client.get("/audit/?request=r-7").content.decode()
    assert "?request=r-7" in page
    assert "No matching entries" in client.get("/audit/?request=r-8").content.decode()


def test_without_a_request_there_is_no_id() -> None:
    AuditEntry(user_name="olga", object="x", operation="y", outcome="done").save()
    assert AuditEntry.objects.get().request_id == ""


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_a_task_has_its_id_and_that_of_the_request_that_sent_it() -> None:
    """Through messages, a worker's thread, and a task that the task sends."""
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    other = Celery("test", broker="memory://", set_as_current=False)  # the signals are those of every application
    assert console_celery.app is not other
    seen: dict[str, dict[str, str]] = {}

    def look(name: str) -> None:
        seen[name] = {field: log_records.field(field) for field in ("request_id", "task_id", "task")}

    @other.task(name="second")
    def second() -> None:
        look("second")

    @other.task(name="first")
    def first() -> None:
        look("first")
        second.apply_async()

    @other.task(name="plain")
    def plain() -> None:
        look("plain")

    with start_worker(other, pool="threads", concurrency=1, perform_ping_check=False, shutdown_timeout=30):
        with log_records.fields(request_id="r-9"):
            sent = first.apply_async()
        until(lambda: "second" in seen)
        alone = plain.apply_async()
        until(lambda: "plain" in seen)
    assert seen["first"] == {"request_id": "r-9", "task_id": sent.id, "task": "first"}
    assert (seen["second"]["request_id"], seen["second"]["task"]) == ("r-9", "second")
    assert seen["second"]["task_id"] not in ("", sent.id)
    assert seen["plain"] == {"request_id": "", "task_id": alone.id, "task": "plain"}
