"""What can be set at brokers by their kinds alone."""

from __future__ import annotations

import pytest

from brokers.adapters.kinds import KINDS
from console.brokers import configured
from console.brokers.models import ForeignBroker
from console.operations.kind_models import brokers_without_resume_levels


@pytest.mark.django_db
def test_brokers_of_kinds_without_resume_levels_are_found_without_a_connection() -> None:
    for kind in KINDS:
        ForeignBroker.objects.create(slug=f"my-{kind}", title=kind, kind=kind, url="http://127.0.0.1:1")
    try:
        # Broker-J has a resume level in percent; the others unblock or accept at the limit itself.
        assert brokers_without_resume_levels() == {"my-rabbitmq", "my-artemis", "my-activemq"}
    finally:
        ForeignBroker.objects.all().delete()
        configured.refresh()
    assert brokers_without_resume_levels() == frozenset()
