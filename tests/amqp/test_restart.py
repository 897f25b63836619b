"""What a broker keeps when it is stopped and started on the same data."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from proton import Message
from proton.utils import ConnectionClosed

from brokers.server.users import CONSOLE
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Crowd, connected, managing, steady

QUEUE = "type=Queue,virtualhost=default,name=orders"


def test_queues_policies_defaults_versions_and_stops_survive_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "broker") as broker, managing(broker) as manager:
        manager.ask("CREATE", {"capacity_messages": 10}, name=QUEUE)
        manager.ask("UPDATE", {"capacity_messages": 20}, name=QUEUE, version=1)
        manager.ask("CREATE", {"capacity_bytes": 5000, "anonymous": True}, name="type=VirtualHost,name=second")
        manager.ask("CREATE", {}, name='type=Queue,virtualhost=second,name="a, b"')
        manager.ask("CREATE", {}, name="type=Queue,virtualhost=second,name=gone")
        manager.ask("DELETE", name="type=Queue,virtualhost=second,name=gone")
        manager.ask("UPDATE", {"flow_resume_messages": "50%"}, name="type=Broker", version=1)
        manager.ask("stop-producers", {"reason": "night", "actor": "anna"}, name=QUEUE)
        manager.ask("stop-producers", {"reason": "rain", "pattern": "in.>"}, name="type=VirtualHost,name=second")
        manager.ask("stop-producers", {}, name="type=VirtualHost,name=second")
        manager.ask("start-producers", {}, name="type=VirtualHost,name=second")
        before = {n: manager.ask("READ", name=n).body for n in _names(manager)}
        secret = broker.secret
    with BrokerThread(tmp_path / "broker", demo=False) as broker, managing(broker) as manager:
        after = {n: manager.ask("READ", name=n).body for n in _names(manager)}
        assert broker.secret == secret
    assert set(after) == set(before)
    preserved = ("version", "capacity_messages", "capacity_bytes", "effective_resume_messages", "effective_stop_bytes")
    preserved += ("stops", "flow_resume_messages", "anonymous", "create_on_attach")
    for name, attributes in before.items():
        for attribute in preserved:
            assert after[name].get(attribute) == attributes.get(attribute), (name, attribute)
    assert after[QUEUE]["state"] == "STOPPED"
    assert (after[QUEUE]["version"], after[QUEUE]["effective_resume_messages"]) == (2, 10)
    assert after[QUEUE]["stops"][0]["reason"] == "night"


def _names(manager: object) -> list[str]:
    names = ["type=Broker"]
    for entity in ("VirtualHost", "Queue"):
        names += [row[0] for row in manager.ask("QUERY", entityType=entity).body["results"]]  # type: ignore[attr-defined]
    # The operator's temporary queue for answers is deleted with its connection.
    return [name for name in names if "name=temporary-queue." not in name]


def test_stop_blocks_producers_that_reconnect_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "broker") as broker, managing(broker) as manager:
        manager.ask("stop-producers", {"reason": "night"}, name="type=Broker")
    with BrokerThread(tmp_path / "broker") as broker, Crowd(broker) as crowd:
        publisher = crowd.publisher("new.queue")
        broker.until_queue("new.queue", lambda q: q.gate.blocked_producers, "it is blocked")
        assert steady(lambda: publisher.sent, "it stands still") == 0


def test_client_gets_an_error_when_the_broker_shuts_down_and_the_shutdown_is_quick(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "broker") as broker:
        with connected(broker) as connection, Crowd(broker) as crowd:
            connection.create_sender("q").send(Message(body="one"))
            crowd.publisher("q")
            crowd.taker("q")
            broker.run(broker.service.stop())
            with pytest.raises(ConnectionClosed, match="shutting down"):
                connection.wait(lambda: False, timeout=5)
        assert broker.look(lambda s: (len(s.broker.connections), len(s._listeners))) == (0, 0)
    assert broker.stopped_within < 2.0


def test_a_start_on_a_taken_port_fails_with_an_os_error_and_leaves_the_data_usable(
    tmp_path: Path, broker: BrokerThread
) -> None:
    with pytest.raises(OSError, match="in use"), BrokerThread(tmp_path / "other", port=broker.port):
        pass


def test_the_log_has_a_line_for_each_event(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headgate.broker.events"), BrokerThread(tmp_path / "broker") as broker:
        broker.queue("orders")
        texts = broker.texts()
    assert [r.getMessage() for r in caplog.records][: len(texts)] == texts
    assert any("BRK-1004 : Ready" in text for text in texts)
    assert CONSOLE not in "".join(texts), "no user signed in"
