"""What a broker says that it has of each type, as the driver reads it: the choices of attributes that have fewer."""

from __future__ import annotations

from brokers.adapters.artemis import Artemis, open_account
from brokers.adapters.kinds import Account
from brokers.drivers.capabilities import with_capabilities
from brokers.model import TYPES
from brokers.server.management_draft import capabilities


def adapted() -> Artemis:
    return open_account(Account("http://127.0.0.1:1"), lambda: 0)


def test_types_arrive_as_the_broker_has_them() -> None:
    types = adapted().types
    arrived = with_capabilities({name: capabilities(declared) for name, declared in types.items()})
    assert arrived == types
    mechanism = arrived["Queue"].attribute("mechanism")
    assert mechanism is not None
    assert mechanism.choices == ("block", "reject")


def test_an_older_broker_that_names_no_choices_has_those_declared() -> None:
    said = capabilities(TYPES["Queue"])
    for attribute in said["attributes"].values():
        attribute.pop("choices", None)
    (queue,) = with_capabilities({"Queue": said}).values()
    assert queue == TYPES["Queue"]


def test_choices_that_this_release_does_not_declare_are_ignored() -> None:
    said = capabilities(TYPES["Queue"])
    said["attributes"]["mechanism"]["choices"] = ["block", "magic"]
    (queue,) = with_capabilities({"Queue": said}).values()
    mechanism = queue.attribute("mechanism")
    assert mechanism is not None
    assert mechanism.choices == ("block",)
