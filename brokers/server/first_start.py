"""The initial content of a new data folder: the defaults and the virtual host `default`."""

from __future__ import annotations

from brokers.engine.broker import Broker
from brokers.engine.registry.virtualhost import DEFAULT

#: Without a resume level below the stop level a steadily consumed queue would become overfull and underfull with every
#: message.
FIRST_DEFAULTS = {"flow_resume_bytes": "80%", "flow_resume_messages": "80%"}


def first_start(broker: Broker, *, demo: bool) -> None:
    """`demo`: allow anonymous clients, and create queues on attach."""
    broker.registry.defaults = dict(FIRST_DEFAULTS)
    broker.records.persist_broker()
    host = broker.create_virtualhost(DEFAULT)
    host.create_on_attach = host.anonymous = demo
    broker.records.persist_virtualhost(host)
