"""Stores of the release before that do not belong to their configuration are adopted with all they have."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from brokers.server import store_adoption
from brokers.server.config_store import ConfigStore
from brokers.server.service import Service
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import earlier_of, file_name, store_files
from brokers.server.store_identity import StoreMismatch
from brokers.server.store_survey import CONFIG, FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_store.test_conversion import data, durable_message, files, small_segments
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.test_store_identity import make_durable, names, receive, send

__all__ = ["data", "small_segments"]  # fixtures


def forget_virtualhost(data: Path, name: str) -> None:
    """Make the configuration what it was before this virtual host was created, some starts ago."""
    with closing(ConfigStore(data / CONFIG)) as config:
        for kind, key, value in list(config.load()):
            if kind == "identity":
                config.put(kind, key, value | {"generation": 1, "next": 1})
            elif name in (value.get("name"), value.get("virtualhost")):
                config.remove(kind, key)
        config.commit()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The configuration is older than the virtual host `second`, and than the last starts."""
    data = tmp_path / "data"
    with BrokerThread(data) as broker:
        make_durable(broker, "dq")
        send(broker, "dq", *names("m", 30))
    with BrokerThread(data) as broker:
        broker.do(lambda s: s.broker.create_virtualhost("second"))
        make_durable(broker, "other", virtualhost="second")
        broker.do(lambda s: [s.broker.queue("second", "other").enqueue(durable_message(n)) for n in range(3)])
        broker.until(lambda s: not s.broker.virtualhost("second").store.pending, "they are stored")
    as_of_the_release_before(data)
    forget_virtualhost(data, "second")
    return data


def test_store_of_a_virtual_host_that_an_older_configuration_does_not_know_is_adopted(older: Path) -> None:
    before = files(older)
    with pytest.raises(StoreMismatch, match="is older than"):
        Service(older)
    assert main(["convert", "--data", str(older)]) == 1
    assert files(older) == before, "what is refused stays as it is"
    assert "virtual host second: queue other was created for the 3 messages" in " ".join(adopt(older))
    with BrokerThread(older) as broker:
        assert receive(broker, "dq") == names("m", 30)
        assert broker.look(lambda s: s.broker.queue("second", "other").gate.depth_messages) == 3


def test_stores_of_a_broker_whose_configuration_is_that_of_another_are_all_adopted(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with BrokerThread(other) as broker:
        make_durable(broker, "orders")
    shutil.copy(other / CONFIG, data / CONFIG)
    said = " ".join(adopt(data))
    assert "for the 30 messages" in said
    assert "virtual host second: queue other was created for the 3 messages" in said
    assert len(store_files(data / FOLDER)) == 2


def test_adoption_that_failed_is_repeated_and_a_start_between_deletes_nothing(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stores have been converted, and the configuration knows them, but is still older."""
    with monkeypatch.context() as patch:
        patch.setattr(store_adoption, "_take_over", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            adopt(older)
    with pytest.raises(StoreMismatch):
        Service(older)
    assert earlier_of(older / FOLDER / file_name("second")).exists()
    adopt(older)
    with BrokerThread(older) as broker:
        assert broker.look(lambda s: s.broker.queue("second", "other").gate.depth_messages) == 3
