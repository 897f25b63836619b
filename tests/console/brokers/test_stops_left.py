"""Stops in force are not left behind unknowingly when a broker is removed, paused or gets another address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from brokers.adapters.adapter import StopTarget
from brokers.adapters.file_records import FILES, FileRecords
from brokers.adapters.records import Stop, StopChange, StoppedTarget
from brokers.engine.values.stops import Scope
from console.audit.models import AuditEntry
from console.brokers import configured
from console.brokers.imported_files import import_files
from console.brokers.models import BrokerRecords, BrokerStop, ForeignBroker
from console.brokers.stops_left import stops_of
from console.leases import lease
from tests.adapters.fake import queue_name
from tests.console.conftest import Broker, signed_in

pytestmark = pytest.mark.django_db

RABBIT = "/api/v1/brokers/rabbit/"
STOP = Stop(Scope("default", queue="orders"), "incident 7", "olga", 1_700_000_000_000)


@pytest.fixture(autouse=True)
def rabbit(broker: Broker, tmp_path: Path, settings: Any) -> Iterator[ForeignBroker]:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "data": str(tmp_path / "adapters")}
    made = ForeignBroker.objects.create(
        slug="rabbit", title="Rabbits", kind="rabbitmq", url="http://10.0.0.7:15672", username="headgate"
    )
    BrokerRecords.objects.create(slug="rabbit", writer="the process", identity="x")
    configured.refresh()
    yield made
    configured._added = ()


@pytest.fixture
def stopped() -> None:
    target = StopTarget("orders", frozenset([queue_name("orders")]), {"limit": 10})
    record = StoppedTarget(target, frozenset([str(STOP.scope)])).record()
    BrokerStop.objects.create(slug="rabbit", part="stop", record=json.dumps(STOP.record()))
    BrokerStop.objects.create(slug="rabbit", part="target", record=json.dumps(record))


@pytest.fixture
def files(rabbit: ForeignBroker, tmp_path: Path) -> Iterator[FileRecords]:
    """The records of an installation with SQLite, as the process that polls the broker has them open, with a stop."""
    records = FileRecords(tmp_path / "adapters" / "rabbit", str(rabbit.pk))
    target = StopTarget("orders", frozenset([queue_name("orders")]), {"limit": 10})
    change = StopChange(STOP, began=True, actor="olga")
    records.save_stops([STOP], [StoppedTarget(target, frozenset([str(STOP.scope)]))], [change])
    yield records
    records.close()


@pytest.fixture
def admin(administrator: User) -> APIClient:
    return signed_in(administrator)


def patch(client: APIClient, **body: Any) -> Any:
    return client.patch(RABBIT, body, format="json")


def test_a_broker_without_stops_is_removed(admin: APIClient) -> None:
    assert admin.delete(RABBIT).status_code == 204


@pytest.mark.usefixtures("stopped")
def test_removal_with_stops_in_force_is_refused_and_lists_them(admin: APIClient) -> None:
    answer = admin.delete(RABBIT)
    assert answer.status_code == 409
    (stop,) = answer.json()["stops"]
    assert (stop["object"], stop["reason"], stop["actor"]) == (str(queue_name("orders")), "incident 7", "olga")
    assert "incident 7, by olga" in answer.json()["detail"]
    assert "Start them first" in answer.json()["detail"]
    assert ForeignBroker.objects.filter(slug="rabbit").exists()
    assert BrokerRecords.objects.get(slug="rabbit").writer == "the process"
    assert AuditEntry.objects.get(operation="remove-broker").outcome == "refused"
    assert admin.delete(f"{RABBIT}?leave_stops=perhaps").status_code == 400


@pytest.mark.usefixtures("stopped")
def test_stops_that_are_left_are_in_the_audit_trail_and_not_those_of_the_next_broker(admin: APIClient) -> None:
    assert admin.delete(f"{RABBIT}?leave_stops=true").status_code == 204
    row = AuditEntry.objects.get(operation="remove-broker")
    assert row.before is not None
    assert row.before["stops"][0]["reason"] == "incident 7"
    assert stops_of("rabbit") == []
    assert BrokerRecords.objects.get(slug="rabbit").writer != "the process"  # which cannot write them again


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"paused": True}, "no stop ends automatically"),
        ({"url": "http://10.0.0.8:15672", "password": "x"}, "at the new address the same stops are made"),
    ],
)
def test_a_pause_and_a_new_address_need_a_confirmation(admin: APIClient, change: Any, sentence: str) -> None:
    answer = patch(admin, **change)
    assert answer.status_code == 409
    assert sentence in answer.json()["detail"]
    assert patch(admin, title="Hares").status_code == 200  # nothing is left behind
    assert patch(admin, **change, leave_stops=True).status_code == 200
    assert len(stops_of("rabbit")) == 1  # they are still operated on


@pytest.mark.usefixtures("stopped")
def test_a_paused_broker_can_be_resumed(admin: APIClient) -> None:
    assert patch(admin, paused=True, leave_stops=True).status_code == 200
    assert patch(admin, paused=False).status_code == 200


def test_a_start_that_has_not_reached_the_broker_counts_as_a_stop(admin: APIClient) -> None:
    target = StopTarget("orders", frozenset([queue_name("orders")]), {"limit": 10})
    record = StoppedTarget(target, frozenset()).record()
    BrokerStop.objects.create(slug="rabbit", part="target", record=json.dumps(record))
    assert "the start has not reached" in admin.delete(RABBIT).json()["detail"]


@pytest.mark.usefixtures("stopped")
def test_the_page_lists_the_stops_before_a_broker_is_removed_or_paused(administrator: User) -> None:
    page = Client()
    page.force_login(administrator)
    for action in ("remove", "pause"):
        text = page.post("/brokers/", {"action": action, "slug": "rabbit"}).content.decode()
        assert "incident 7, by olga" in text
        assert 'name="leave_stops" value="1"' in text
        unconfirmed = page.post("/brokers/", {"action": action, "slug": "rabbit", "confirmed": "1"})
        assert unconfirmed.status_code == 409
    moved = {"action": "save", "title": "Rabbits", "url": "http://10.0.0.8:15672", "password": "x"}
    assert 'name="leave_stops"' in page.post("/brokers/?edit=rabbit", moved).content.decode()
    done = page.post("/brokers/", {"action": "remove", "slug": "rabbit", "confirmed": "1", "leave_stops": "1"})
    assert done.status_code == 302
    assert not ForeignBroker.objects.filter(slug="rabbit").exists()


# -- with SQLite: the records are in files ----------------------------------------------------------------------------


def test_stops_in_a_file_are_not_left_behind_unknowingly(admin: APIClient, files: FileRecords) -> None:
    answer = admin.delete(RABBIT)
    assert answer.status_code == 409
    assert answer.json()["stops"][0]["reason"] == "incident 7"
    assert patch(admin, paused=True).status_code == 409
    assert patch(admin, url="http://10.0.0.8:15672", password="x").status_code == 409
    assert admin.delete(f"{RABBIT}?leave_stops=true").status_code == 204
    row = AuditEntry.objects.filter(operation="remove-broker").latest("pk")
    assert row.before is not None
    assert row.before["stops"][0]["reason"] == "incident 7"


def test_a_start_in_a_file_that_has_not_reached_the_broker_counts_as_a_stop(
    admin: APIClient, files: FileRecords
) -> None:
    files.save_stops([], [StoppedTarget(StopTarget("orders", frozenset()), frozenset())], [])
    assert "the start has not reached" in admin.delete(RABBIT).json()["detail"]


def test_a_broker_that_is_added_later_gets_no_stops_of_the_one_before(
    admin: APIClient, files: FileRecords, tmp_path: Path
) -> None:
    """The process has its file open while the broker is removed, and writes it once more."""
    assert admin.delete(f"{RABBIT}?leave_stops=true").status_code == 204
    files.save_stops(files.stops(), files.targets(), files.unannounced())
    made = ForeignBroker.objects.create(slug="rabbit", title="Others", kind="rabbitmq", url="http://10.0.0.9:15672")
    assert stops_of("rabbit") == []
    for _ in range(2):
        files.close()
        files = FileRecords(tmp_path / "adapters" / "rabbit", str(made.pk))
        assert (files.stops(), files.targets(), files.unannounced()) == ([], [], [])
        files.save_stops([], [], [])
    files.close()


def test_a_file_of_another_broker_has_no_stops_for_this_one(
    files: FileRecords, rabbit: ForeignBroker, tmp_path: Path
) -> None:
    """The file could not be written when that broker was removed."""
    rabbit.delete()
    made = ForeignBroker.objects.create(slug="rabbit", title="Others", kind="rabbitmq", url="http://10.0.0.9:15672")
    assert stops_of("rabbit") == []
    opened = FileRecords(tmp_path / "adapters" / "rabbit", str(made.pk))
    assert (opened.stops(), opened.targets(), opened.unannounced()) == ([], [], [])
    opened.close()


def test_stops_that_were_left_behind_are_not_imported_later(
    admin: APIClient, files: FileRecords, tmp_path: Path
) -> None:
    assert admin.delete(f"{RABBIT}?leave_stops=true").status_code == 204
    files.close()
    lease.take("rabbit", 60)
    BrokerRecords.objects.all().delete()
    import_files(tmp_path / "adapters" / "rabbit", "rabbit", "rabbit", lambda: None)
    assert not BrokerStop.objects.exists()
    assert BrokerRecords.objects.exists()  # its events are


def test_a_file_that_cannot_be_read_needs_a_confirmation(admin: APIClient, files: FileRecords, tmp_path: Path) -> None:
    files.close()
    (tmp_path / "adapters" / "rabbit" / FILES[0]).write_bytes(b"not a database" * 100)
    answer = admin.delete(RABBIT)
    assert answer.status_code == 409
    assert "unknown" in answer.json()["detail"]
    assert admin.delete(f"{RABBIT}?leave_stops=true").status_code == 204
