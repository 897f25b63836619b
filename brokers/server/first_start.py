"""What a new data folder starts with: the defaults and the virtual host `default`."""

from __future__ import annotations

from brokers.engine.broker import Broker
from brokers.engine.registry.virtualhost import DEFAULT

#: Without a resume level below the stop level a queue that is read from steadily would become overfull and underfull
#: with every message.
FIRST_DEFAULTS = {"flow_resume_bytes": "80%", "flow_resume_messages": "80%"}


def first_start(broker: Broker, *, demo: bool) -> None:
    """`demo`: anonymous clients are let in, and queues created as they attach."""
    broker.registry.defaults = dict(FIRST_DEFAULTS)
    broker.records.persist_broker()
    host = broker.create_virtualhost(DEFAULT)
    host.create_on_attach = host.anonymous = demo
    broker.records.persist_virtualhost(host)
