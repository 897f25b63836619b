"""Brokers that are added and removed while a process runs: its links follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from brokers.admin import BrokerUnreachable
from console.brokers import configured
from console.brokers.models import ForeignBroker
from console.links.registry import UnknownBroker, connect_to, link, links
from tests.console.conftest import Broker, until

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
    with pytest.raises(BrokerUnreachable, match=r"manage\.py adapters"):
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
