"""Artemis's management address: refusals, and what is not sent. The rest is tested with a real broker."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from proton import Message

from brokers.adapters import jolokia
from brokers.adapters.artemis_management import BROKER, ManagementAddress, _reason, _value
from brokers.adapters.jolokia import JolokiaError
from brokers.adapters.kinds import KINDS, Account
from brokers.admin import AdminError, BrokerUnreachable, NotAllowed, NotFound
from brokers.drivers.amqp_links import LinkEnded

#: Texts of Artemis 2.20 to 2.55.
NO_PERMISSION = (
    "AMQ229032: User: ada does not have permission='EDIT' on address mops.broker.addAddressSettings",
    "AMQ229213: User: ada does not have permission='MANAGE' for queue x on address activemq.management",
)


def answer(value: Any, *, succeeded: bool = False) -> Message:
    return Message(properties={"_AMQ_OperationSucceeded": succeeded}, body=json.dumps([value]))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, NotAllowed) for text in NO_PERMISSION),
        ("AMQ229067: Cannot find resource with name address.orders", NotFound),
        ("AMQ229069: no operation block/0", JolokiaError),
        ("pageSize has to be lower than maxSizeBytes. Invalid argument (10485760 < 70000)", JolokiaError),
    ],
)
def test_each_refusal_is_an_error_of_its_kind(text: str, kind: type[AdminError]) -> None:
    with pytest.raises(kind, match=text.split("(", maxsplit=1)[0].replace(".", r"\.")):
        _value(answer(text), "it")


def test_answers_without_json_are_of_another_program() -> None:
    with pytest.raises(BrokerUnreachable, match="does not answer in JSON"):
        _value(Message(body="<html>"), "it")


def test_values_are_taken_out_of_their_list() -> None:
    assert _value(answer(["a", "b"], succeeded=True), "it") == ["a", "b"]
    assert _value(answer(False, succeeded=True), "it") is False
    assert _value(Message(properties={"_AMQ_OperationSucceeded": True}), "it") is None


def test_a_link_that_the_user_may_not_open_is_a_missing_permission() -> None:
    assert isinstance(_reason(LinkEnded("amqp:unauthorized-access", "AMQ119213")), NotAllowed)
    assert isinstance(_reason(LinkEnded("amqp:internal-error", "")), BrokerUnreachable)


@pytest.mark.parametrize("url", ["amqp://artemis.example.org", "amqps://artemis.example.org"])
async def test_a_name_that_resolves_to_a_link_local_address_is_not_connected_to(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(*_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 5672))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    management = ManagementAddress(Account(url, "ada", "secret"))
    with pytest.raises(BrokerUnreachable, match=r"artemis.example.org: 169.254.169.254 is refused"):
        await management.one(jolokia.read(BROKER, "Version"))


async def test_a_password_is_not_sent_in_clear_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 5672))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    management = ManagementAddress(Account("amqp://artemis.example.org", "ada", "secret"))
    with pytest.raises(NotAllowed, match="connect with TLS"):
        await management.one(jolokia.read(BROKER, "Version"))


async def test_nothing_is_sent_by_a_process_that_no_longer_hosts_the_broker() -> None:
    management = ManagementAddress(Account("amqp://127.0.0.1:1", allowed=lambda: False))
    with pytest.raises(BrokerUnreachable, match="no longer hosts the broker"):
        await management.one(jolokia.read(BROKER, "Version"))


def test_kinds_that_speak_http_alone_are_not_opened_by_amqp() -> None:
    assert [slug for slug, kind in KINDS.items() if "amqp" in kind.schemes] == ["artemis"]
