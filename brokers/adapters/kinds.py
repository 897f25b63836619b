"""The kinds of brokers that can be adapted: one line for each.

Nothing else is chosen by a kind's name: what a broker has is in the types of its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import cast

from brokers.adapters.adapter import Adapter
from brokers.adapters.addresses import AMQP, HTTP
from brokers.adapters.several_addresses import SeveralAddresses
from brokers.model import ManagedType


def always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Account:
    """How to reach a broker. `url`: one or several, separated by spaces, as `addresses.check_urls` returns them; an
    adapter of one address gets one. `authority`: certificate
    authorities, PEM text or the path of a PEM file; "": the system's. `allowed`: whether a request may be sent now; not
    when another process may host the broker. The password is not part of the text form."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    authority: str = ""
    allowed: Callable[[], bool] = field(default=always, repr=False, compare=False)


def single_addresses(account: Account) -> list[Account]:
    """Return the account at each of its addresses."""
    return [replace(account, url=url) for url in account.url.split()] or [account]


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
        factory = getattr(import_module(module), name)
        several = {each.url: cast(Adapter, factory(each, now)) for each in single_addresses(account)}
        return SeveralAddresses(several) if len(several) > 1 else next(iter(several.values()))

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
