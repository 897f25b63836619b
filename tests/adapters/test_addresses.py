"""Addresses of brokers: what is refused when it is entered, and at each connection."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from brokers import name_lookup
from brokers.adapters.addresses import MOST_ADDRESSES, AddressRefused, check_address, check_resolved, check_url
from brokers.adapters.http import JsonHttp
from brokers.adapters.kinds import KINDS, Account
from brokers.admin import BrokerUnreachable


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:15672",
        "https://rabbit.example.org/api/",
        "http://[::1]:8161",
        "http://10.0.0.7:15672/",
        "amqp://127.0.0.1:5672",
        "amqps://artemis.example.org/",
    ],
)
def test_addresses_of_brokers_are_accepted_without_a_slash_at_the_end(url: str) -> None:
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://rabbit", "http:// or https://"),
        ("rabbit:15672", "http:// or https://"),
        ("http://", "http:// or https://"),
        ("amqp://artemis/orders", "host and port"),
        ("amqp://169.254.169.254", "link-local"),
        ("http://guest:guest@rabbit", "their own fields"),
        ("http://@rabbit", "their own fields"),
        ("http://rabbit/?a=b", "query"),
        ("http://rabbit#x", "query"),
        ("http://rabbit:0", "port 0"),
        ("http://rabbit:99999", "is not a URL"),
        ("http://ra bbit", "spaces"),
        ("http://rabbit\n", "spaces"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://[fe80::1]:15672", "link-local"),
        ("http://[::ffff:169.254.169.254]", "link-local"),
        ("http://[64:ff9b::a9fe:a9fe]", "link-local"),
        ("http://[64:ff9b:1::a9fe:a9fe]", "link-local"),
        ("http://[2001:0:4136:e378:8000:63bf:5601:5601]", "link-local"),
        ("http://[fd00:ec2::254]", "metadata service"),
        ("http://100.100.100.200", "metadata service"),
        ("http://168.63.129.16", "metadata service"),
        ("http://0.0.0.0:15672", "no address of a machine"),
        ("http://[::]:15672", "no address of a machine"),
        ("http://224.0.0.1", "multicast"),
    ],
)
def test_each_refused_address_has_a_sentence(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        check_url(url)


def test_a_name_that_resolves_to_a_link_local_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(name_lookup, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(AddressRefused, match=r"rabbit.example.org: 169.254.169.254 is refused"):
        check_resolved("http://rabbit.example.org")


def test_a_name_that_does_not_resolve_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> Any:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(name_lookup, "getaddrinfo", absent)
    check_resolved("http://rabbit.example.org")
    check_address("rabbit.example.org")


@pytest.mark.asyncio
async def test_each_connection_checks_the_address_that_it_is_opened_to() -> None:
    http = JsonHttp("http://0.0.0.0:9/api", "guest", "guest")
    try:
        with pytest.raises(BrokerUnreachable, match="no address of a machine"):
            await http.request("GET", "/overview")
    finally:
        await http.close()


@pytest.mark.asyncio
async def test_an_unusable_authority_is_named_by_what_it_is() -> None:
    for authority, says in (("/no/such/file.pem", "file /no/such/file.pem"), ("-----BEGIN nothing", "the certificate")):
        http = JsonHttp("https://127.0.0.1:9", "", "", authority=authority)
        with pytest.raises(BrokerUnreachable, match=says):
            await http.request("GET", "/")
        await http.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_opens_an_adapter(kind: str) -> None:
    adapter = KINDS[kind].open(Account(KINDS[kind].url, "guest", "secret"), lambda: 0)
    assert {"Broker", "Queue"} <= set(adapter.types)
    assert "secret" not in repr(Account("http://x", "guest", "secret"))


async def test_no_request_is_sent_while_another_process_may_host_the_broker() -> None:
    allowed = False
    http = JsonHttp.of(Account("http://127.0.0.1:9", allowed=lambda: allowed), "http://127.0.0.1:9")
    for method in ("GET", "PUT"):
        with pytest.raises(BrokerUnreachable, match="no longer hosts the broker"):
            await http.request(method, "/")
    allowed = True
    with pytest.raises(BrokerUnreachable, match=r"^cannot reach http://127\.0\.0\.1:9: connection refused$"):
        await http.request("PUT", "/")
    await http.close()


def test_names_whose_look_up_hangs_delay_no_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    release, begun = threading.Event(), threading.Barrier(MOST_ADDRESSES + 1)

    def hangs(host: str, *_: Any, **__: Any) -> Any:
        begun.wait(60)
        release.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]

    monkeypatch.setattr(name_lookup, "getaddrinfo", hangs)
    monkeypatch.setattr(name_lookup, "TIMEOUT", 0.05)
    urls = " ".join(f"http://node{number}.example.org" for number in range(MOST_ADDRESSES))
    check_resolved(urls)
    begun.wait(60)  # all look-ups are under way at the same time, or this breaks
    release.set()
