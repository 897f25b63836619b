"""The process of the adapters: it hosts what the table has, and never two processes host one broker."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from brokers.adapters.records import StoreError
from brokers.admin import BrokerUnreachable
from console.brokers import hosting, keys
from console.brokers.hosting import EXTEND_SECONDS, LEASE_SECONDS, Address, Hosting
from console.brokers.models import ForeignBroker, ServedBroker
from console.history.models import Lease
from console.leases.process import this_process


class Service:
    """The service, without polling: adapters by name."""

    def __init__(self) -> None:
        self.hosted: dict[str, Any] = {}
        self.failed: list[str] = []

    @property
    def names(self) -> list[str]:
        return list(self.hosted)

    def add(self, name: str, adapter: Any, records: Any) -> None:
        self.hosted[name] = adapter

    async def remove(self, name: str) -> None:
        del self.hosted[name]


ADDRESS = Address("127.0.0.1", 4000, "swordfish")


def records(row: ForeignBroker, keep_alive: Any) -> Any:
    """What is stored of a broker; the service of these tests needs none."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def said() -> list[list[str]]:
    return []


@pytest.fixture
def host(
    db: None, service: Service, clock: Clock, said: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hosting]:
    made = Hosting(service, lambda: 0, said.append, records, ADDRESS, steady=clock)

    async def here(work: Any) -> Any:
        """In the thread of the test, whose transaction has the rows."""
        return work()

    monkeypatch.setattr(Hosting, "_in_database", lambda _self, work: here(work))
    yield made
    made._thread.close()


@pytest.fixture(autouse=True)
def _own_key(tmp_path: Path, settings: Any) -> None:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")


def add(slug: str, **more: Any) -> ForeignBroker:
    fields = {"kind": "rabbitmq", "url": "http://10.0.0.7:15672", **more}
    return ForeignBroker.objects.create(slug=slug, title=slug, **fields)


def look(host: Hosting) -> None:
    completed(host.look())


def completed(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing, without a loop: in one, Django would open another connection."""
    with pytest.raises(StopIteration):
        work.send(None)


def other_process(slug: str, *, until: dt.datetime) -> None:
    """Give the lease of a broker to a process of another host."""
    Lease.objects.create(name=f"adapter~{slug}", lease_holder="other:1:2", lease_until=until)


def test_a_broker_that_is_removed_and_another_one_added_between_two_looks_is_another(
    host: Hosting, service: Service
) -> None:
    add("rabbit")
    look(host)
    before = service.hosted["rabbit"]
    ForeignBroker.objects.all().delete()
    add("rabbit", url="http://10.0.0.9:15672")
    look(host)
    assert service.hosted["rabbit"] is not before


def test_brokers_come_change_pause_and_go(host: Hosting, service: Service, said: list[list[str]]) -> None:
    look(host)
    assert said == [[]]
    row = add("rabbit")
    look(host)
    assert said[-1] == service.names == ["rabbit"]
    first = service.hosted["rabbit"]
    look(host)
    assert service.hosted["rabbit"] is first
    row.url, row.revision = "http://10.0.0.8:15672", 2
    row.save()
    look(host)
    assert service.hosted["rabbit"] is not first
    row.paused, row.revision = True, 3
    row.save()
    look(host)
    assert service.names == []
    assert not Lease.objects.filter(name="adapter~rabbit").exists()
    row.paused, row.revision = False, 4
    row.save()
    look(host)
    assert service.names == ["rabbit"]
    row.delete()
    look(host)
    assert service.names == said[-1] == []


def test_a_broker_that_another_process_polls_is_left_to_it(host: Hosting, service: Service) -> None:
    add("rabbit")
    add("hare")
    other_process("rabbit", until=timezone.now() + dt.timedelta(seconds=9))
    look(host)
    assert service.names == ["hare"]
    Lease.objects.filter(name="adapter~rabbit").delete()
    look(host)
    assert sorted(service.names) == ["hare", "rabbit"]


def test_a_process_of_another_host_takes_over_within_15_seconds() -> None:
    # Its lease expires, and no renewal is seen for half of that: both from the last renewal on.
    assert LEASE_SECONDS + 2 * hosting.LOOK_SECONDS < 15
    assert EXTEND_SECONDS * 2 < LEASE_SECONDS


def test_a_process_whose_lease_was_taken_over_ends_its_polling(host: Hosting, service: Service, clock: Clock) -> None:
    add("rabbit")
    look(host)
    later = timezone.now() + dt.timedelta(seconds=9)
    Lease.objects.filter(name="adapter~rabbit").update(lease_holder="other:1:2", lease_until=later)
    clock.now += EXTEND_SECONDS
    look(host)
    assert service.names == []


def test_polling_ends_when_the_leases_have_expired_because_the_database_is_away(
    host: Hosting, service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("rabbit")
    look(host)

    def fails(*_: Any, **__: Any) -> Any:
        raise OperationalError("no answer")

    with monkeypatch.context() as away:
        away.setattr(ForeignBroker.objects, "filter", fails)
        clock.now += LEASE_SECONDS - 1
        look(host)
        assert service.names == ["rabbit"]
        clock.now += 1
        look(host)
        assert service.names == []
    look(host)
    assert service.names == ["rabbit"]


@pytest.mark.parametrize(
    ("fields", "says"), [({"kind": "telex"}, "no kind 'telex'"), ({"encrypted": "damaged"}, "enter it again")]
)
def test_a_broker_with_an_unusable_kind_or_password_says_so(
    host: Hosting, service: Service, fields: dict[str, str], says: str
) -> None:
    add("rabbit", **fields)
    look(host)
    with pytest.raises(BrokerUnreachable, match=says):
        asyncio.run(service.hosted["rabbit"].connect())


def test_the_end_releases_every_broker(host: Hosting, service: Service) -> None:
    with keys.locked():
        add("rabbit", encrypted=keys.encrypt("swordfish"))

    look(host)
    completed(host.end())
    assert service.names == []
    assert not Lease.objects.filter(name__startswith="adapter~").exists()


def test_links_find_where_a_broker_is_served(host: Hosting, service: Service) -> None:
    add("rabbit")
    look(host)
    found = ServedBroker.objects.get()
    assert (found.broker.slug, found.process, found.host, found.port) == ("rabbit", this_process(), "127.0.0.1", 4000)
    assert "swordfish" not in found.encrypted
    assert keys.decrypt(found.encrypted) == "swordfish"
    completed(host.end())
    assert not ServedBroker.objects.exists()


def test_the_address_of_the_process_that_took_over_stays(host: Hosting, service: Service, clock: Clock) -> None:
    add("rabbit")
    look(host)
    later = timezone.now() + dt.timedelta(seconds=9)
    Lease.objects.filter(name="adapter~rabbit").update(lease_holder="other:1:2", lease_until=later)
    ServedBroker.objects.update(process="other:1:2", port=4001)
    clock.now += EXTEND_SECONDS
    look(host)
    assert service.names == []
    assert ServedBroker.objects.get().port == 4001


def test_a_broker_whose_records_cannot_be_written_is_hosted_again(host: Hosting, service: Service) -> None:
    add("rabbit")
    look(host)
    first = service.hosted["rabbit"]
    service.failed = ["rabbit"]
    look(host)
    assert service.hosted["rabbit"] is not first
    assert ServedBroker.objects.exists()


def test_one_broker_whose_records_cannot_be_opened_does_not_hinder_the_others(
    host: Hosting, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    add("hare")
    add("rabbit")

    def one_is_damaged(row: ForeignBroker, keep_alive: Any) -> Any:
        if row.slug == "hare":
            raise StoreError("events.sqlite3 is damaged")

    host.open_ = one_is_damaged
    for _ in range(3):
        look(host)
    assert service.names == ["rabbit"]
    assert [record.message for record in caplog.records] == ["hare cannot be hosted: events.sqlite3 is damaged"]
    assert [each.broker.slug for each in ServedBroker.objects.all()] == ["rabbit"]
    host.open_ = records
    look(host)
    assert sorted(service.names) == ["hare", "rabbit"]


def test_a_broker_that_links_could_not_find_is_not_polled(
    host: Hosting, service: Service, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add("rabbit")
    key = Path(settings.HEADGATE_BROKER_KEYS)
    key.mkdir()
    for _ in range(3):
        look(host)
    assert (service.names, ServedBroker.objects.count()) == ([], 0)
    assert len(caplog.records) == 1
    key.rmdir()
    look(host)
    assert service.names == ["rabbit"]


def test_no_request_is_sent_to_a_broker_whose_lease_may_have_expired(
    host: Hosting, service: Service, clock: Clock
) -> None:
    """Also before the process has looked: it may have hung in the middle of a change."""
    add("rabbit")
    look(host)
    adapter, acquired = service.hosted["rabbit"], host._leased["rabbit"]
    clock.now += LEASE_SECONDS - 0.1
    assert host.owns("rabbit", acquired)
    clock.now += 0.1
    assert not host.owns("rabbit", acquired)
    with pytest.raises(BrokerUnreachable, match="no longer hosts"):
        asyncio.run(adapter.connect())
    look(host)  # no other process has taken over
    assert host.owns("rabbit", acquired)
