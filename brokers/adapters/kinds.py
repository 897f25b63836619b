"""The kinds of brokers that can be adapted: one line for each.

Nothing else is chosen by a kind's name: what a broker has is in the types of its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from brokers.adapters.adapter import Adapter
from brokers.adapters.addresses import AMQP, HTTP
from brokers.model import ManagedType


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Account:
    """How to reach a broker. `url`: with a scheme of its kind, without a slash at its end. `authority`: certificate
    authorities, PEM text or the path of a PEM file; "": the system's. `allowed`: whether a request may be sent now; not
    when another process may host the broker. The password is not part of the text form."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    authority: str = ""
    allowed: Callable[[], bool] = field(default=always, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """`title`: for people. `factory`: `module:function`, imported on first use, that takes an Account and the clock (ms
    since the epoch) and returns an Adapter. `url`: an example, for forms. `schemes`: of its URLs."""

    title: str
    factory: str
    url: str
    schemes: tuple[str, ...] = HTTP

    def open(self, account: Account, now: Callable[[], int]) -> Adapter:
        module, _, name = self.factory.partition(":")
        return cast(Adapter, getattr(import_module(module), name)(account, now))

    def types(self) -> Mapping[str, ManagedType]:
        """Return what brokers of this kind have, without a request to one."""
        return self.open(Account(self.url), lambda: 0).types


KINDS: dict[str, Kind] = {
    "rabbitmq": Kind("RabbitMQ", "brokers.adapters.rabbitmq:open_account", "http://rabbit.example.org:15672"),
    "artemis": Kind(
        "Apache Artemis",
        "brokers.adapters.artemis:open_account",
        "http://artemis.example.org:8161/console/jolokia",
        (*HTTP, *AMQP),
    ),
    "activemq": Kind(
        "Apache ActiveMQ Classic",
        "brokers.adapters.activemq:open_account",
        "http://activemq.example.org:8161/api/jolokia",
    ),
    "broker-j": Kind("Apache Qpid Broker-J", "brokers.adapters.broker_j:open_account", "http://qpid.example.org:8080"),
}
