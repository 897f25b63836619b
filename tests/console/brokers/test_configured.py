"""Brokers that are added and removed while a process runs: its links follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from brokers.admin import BrokerAdmin, BrokerUnreachable
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.brokers import configured, keys
from console.brokers.models import ForeignBroker, ServedBroker
from console.leases.process import this_process
from console.links.registry import UnknownBroker, connect_adapted, connect_to, link, links
from tests.console.conftest import Broker, until
from tests.console.standin import Connected

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _as_before(broker: Broker) -> Iterator[None]:
    yield
    configured._added = ()


def add(slug: str = "rabbit", **more: Any) -> ForeignBroker:
    return ForeignBroker.objects.create(slug=slug, title=slug.title(), kind="rabbitmq", url="http://10.0.0.7", **more)


def test_an_added_broker_follows_those_of_the_settings_with_a_link() -> None:
    local = link("local")
    until(lambda: local.connected)
    add()
    configured.refresh()
    assert configured.slugs() == ["local", "rabbit"]
    assert [each.slug for each in links()] == ["local", "rabbit"]
    assert link() is local
    assert local.connected
    with pytest.raises(BrokerUnreachable, match="headgate adapters"):
        link("rabbit").require_snapshot()


def test_a_removed_broker_loses_its_link_and_those_that_have_it_see_why() -> None:
    row = add()
    configured.refresh()
    gone = link("rabbit")
    until(lambda: not gone.connected and gone.status.error != "connecting")
    row.delete()
    configured.refresh()
    assert configured.slugs() == ["local"]
    with pytest.raises(UnknownBroker):
        link("rabbit")
    until(lambda: "was removed" in gone.status.error)
    with pytest.raises(BrokerUnreachable, match="was removed"):
        gone.require_current()


def test_a_changed_title_and_a_pause_take_effect_on_the_same_link() -> None:
    row = add()
    configured.refresh()
    before = link("rabbit")
    row.title, row.paused = "Rabbits of Europe", True
    row.save()
    configured.refresh()
    assert link("rabbit") is before
    assert before.title == "Rabbits of Europe"
    until(lambda: "paused" in before.status.error)


def test_a_broker_of_the_settings_wins_over_an_added_one_of_the_same_name() -> None:
    add("local")
    configured.refresh()
    assert configured.slugs() == ["local"]
    assert "kind" not in configured.configured()[0]


def test_what_was_read_stays_valid_while_the_database_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    add()
    configured.refresh()

    def fails(*_: Any) -> Any:
        raise OperationalError("the disk is away")

    monkeypatch.setattr(ForeignBroker.objects, "defer", fails)
    assert not configured._try()
    assert configured.slugs() == ["local", "rabbit"]


@pytest.mark.asyncio
async def test_a_recorder_connects_to_a_broker_as_it_is_configured_now() -> None:
    with pytest.raises(BrokerUnreachable, match="was removed"):
        await connect_to("rabbit")
    admin = await connect_to("local")
    await admin.close()


def test_the_password_is_not_read_for_the_list(django_assert_num_queries: Any) -> None:
    add(encrypted="anything")
    with django_assert_num_queries(1) as captured:
        configured.refresh()
    assert '"brokers_foreignbroker"."encrypted"' not in captured.captured_queries[0]["sql"]


def test_the_supervisor_sees_whether_the_process_of_the_adapters_is_needed(tmp_path: Path, settings: Any) -> None:
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "data": str(tmp_path / "adapters")}
    marker = tmp_path / "adapters" / "needed"
    configured.refresh()
    assert not marker.parent.exists()
    row = add()
    configured.refresh()
    assert marker.exists()
    row.delete()
    configured.refresh()
    assert not marker.exists()


# -- where a broker is served -----------------------------------------------------------------------------------------


class Elsewhere:
    """The processes that serve brokers, by their port: each refuses or has the broker in memory."""

    def __init__(self) -> None:
        self.memory = InMemoryBroker()
        self.attempts: list[Any] = []

    async def connect(self, *, name: str, paused: bool, served: tuple[Any, ...] | None) -> BrokerAdmin:
        self.attempts.append(served and served[2])
        if served is None:
            raise BrokerUnreachable("no process polls the broker yet")
        return Connected(self.memory)


def serve(row: ForeignBroker, port: int, *, host: str = "127.0.0.1", process: str = "") -> None:
    with keys.locked():
        values = {"process": process or this_process(), "host": host, "port": port, "encrypted": keys.encrypt("s")}
    ServedBroker.objects.update_or_create(broker=row, defaults=values)


@pytest.fixture
def elsewhere(settings: Any, tmp_path: Path) -> Elsewhere:
    made = Elsewhere()
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "brokers.key")
    settings.HEADGATE_ADAPTERS = {**settings.HEADGATE_ADAPTERS, "connect": made.connect}
    return made


def test_a_link_follows_its_broker_at_once_though_its_connection_still_stands(elsewhere: Elsewhere) -> None:
    row = add()
    configured.refresh()
    rabbit = link("rabbit")
    until(lambda: "no process polls" in rabbit.status.error)
    serve(row, 4001)
    configured.refresh()
    until(lambda: rabbit.connected)
    assert set(elsewhere.attempts[-1:]) == {4001}
    serve(row, 4002)
    configured.refresh()
    until(lambda: elsewhere.attempts[-1] == 4002 and rabbit.connected)
    attempts = len(elsewhere.attempts)
    row.title = "Rabbits of Europe"
    row.save()
    configured.refresh()
    ServedBroker.objects.all().delete()
    configured.refresh()
    until(lambda: "no process polls" in rabbit.status.error)
    assert elsewhere.attempts[attempts] is None  # not once more because of the title


def test_conditions_of_a_removed_broker_end(elsewhere: Elsewhere) -> None:
    elsewhere.memory.fill("orders", 9, size=100)
    limits = object_name("Broker")
    version = elsewhere.memory.management.read(limits).version
    elsewhere.memory.management.update(limits, {"memory_limit": 1000}, version)
    elsewhere.memory._end_turn()
    row = add()
    serve(row, 4001)
    configured.refresh()
    gone = link("rabbit")
    until(gone.conditions)
    revision = gone.revision
    row.delete()
    configured.refresh()
    until(lambda: "was removed" in gone.status.error)
    assert gone.conditions() == gone.conditions("type=Broker") == []
    assert gone.revision > revision, "who shows them gets a new snapshot"


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("served", "says"),
    [
        (None, r"no process polls the broker yet"),
        (("other:1:2", "127.0.0.1", 4000, "x", ""), r"polled by other, on loopback only: .* --host"),
        (("other:1:2", "::1", 4000, "x", ""), r"on loopback only"),
        (("other:1:2", "10.0.0.7", 4000, "damaged", "PEM"), r"cannot sign in to the process that polls"),
    ],
)
async def test_why_the_process_that_polls_cannot_be_reached_is_a_sentence(
    elsewhere: Elsewhere, served: Any, says: str
) -> None:
    with pytest.raises(BrokerUnreachable, match=says):
        await connect_adapted(name="rabbit", paused=False, served=served)
