"""Addresses that webhooks may reach, and signed requests to them."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from brokers.name_lookup import _pending, look_up
from console.alerts.addresses import NotAllowed, check, network_of, url_of
from console.alerts.webhook import Refused, _Connection, post, sign
from tests.console.alerts.receivers import Received, http_receiver

LOOPBACK = [network_of("127.0.0.0/8")]


@pytest.fixture
def hook() -> Iterator[Received]:
    with http_receiver() as got:
        yield got


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
        "64:ff9b::7f00:1", "2002:7f00:1::",
    ],
)  # fmt: skip
def test_private_address_is_refused(address: str) -> None:
    with pytest.raises(NotAllowed):
        check("receiver", ipaddress.ip_address(address), [])


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"])
def test_public_address_is_allowed(address: str) -> None:
    check("receiver", ipaddress.ip_address(address), [])


def test_only_addresses_of_an_allowed_network_are_allowed() -> None:
    check("receiver", ipaddress.ip_address("10.1.2.3"), [network_of("10.0.0.0/8")])
    with pytest.raises(NotAllowed, match="administrator"):
        check("receiver", ipaddress.ip_address("192.168.0.1"), [network_of("10.0.0.0/8")])


@pytest.mark.parametrize(
    "text", ["169.254.0.0/16", "0.0.0.0/0", "::/0", "fe80::/10", "nonsense", "10.0.0.1/8", "224.0.0.0/4"]
)
def test_some_networks_cannot_be_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"network|cannot be allowed"):
        network_of(text)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a/",
        "https://",
        "a.example",
        "http://user:secret@a/",
        "http://a:99999/",
        "http://a/ b",
        "http://a/\r\nX: y",
    ],
)
def test_invalid_webhook_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        url_of(url)


def test_loopback_is_refused_unless_allowed(hook: Received) -> None:
    with pytest.raises(NotAllowed):
        post(hook.url, "secret", {"a": 1}, delivery="1", allowed=[])
    assert not hook.requests
    assert post(hook.url, "secret", {"a": 1}, delivery="1", allowed=LOOPBACK) == 200


def test_signature_covers_time_and_body(hook: Received) -> None:
    post(hook.url, "secret", {"a": "ä"}, delivery="17", allowed=LOOPBACK)
    ((headers, body),) = hook.requests
    at = int(headers["Headgate-Signature"].split(",")[0].removeprefix("t="))
    assert headers["Headgate-Signature"] == sign("secret", at, body)
    assert headers["Headgate-Signature"] != sign("another", at, body)
    assert headers["Headgate-Delivery"] == "17"
    assert hook.bodies == [{"a": "ä"}]


def test_redirect_is_not_followed(hook: Received) -> None:
    hook.answers, hook.headers = [307], {"Location": hook.url}
    with pytest.raises(Refused, match="redirect"):
        post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK)
    assert len(hook.requests) == 1


def test_request_to_silent_receiver_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(OSError, match=r"timed out|no response"):
            post(url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=0.2)


def test_slow_response_times_out_and_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = threading.Event()
    abort = _Connection.abort

    def abort_while_still_receiving(self: _Connection) -> None:
        abort(self)
        finished.wait(20)

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            for byte in b"HTTP/1.1 200 " + b"O" * 1000:
                connection.send(bytes([byte]))
                if finished.wait(0.05):
                    return

    monkeypatch.setattr(_Connection, "abort", abort_while_still_receiving)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as others:
        others.submit(drip, server)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            with pytest.raises(OSError, match="no response within 1 s"):
                post(url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=1)
        finally:
            finished.set()


def test_look_up_is_bounded_and_the_name_is_looked_up_again_after_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = [], threading.Event()

    def slow(host: str, port: int, **_: Any) -> list[Any]:
        begun.append(host)
        if host == "slow.example":
            assert go_on.wait(60)
        if host == "unknown.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))] * 2

    monkeypatch.setattr("brokers.name_lookup.getaddrinfo", slow)
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError, match=r"slow.example could not be looked up within 0.05 s"):
                look_up("slow.example", 443, 0.05)
        with pytest.raises(OSError, match=r"slow.example could not be looked up"):
            post("https://slow.example/", "secret", {}, delivery="1", allowed=[], timeout=0.05)
        assert begun == ["slow.example"]
        assert [str(each) for each in look_up("other.example", 443)] == ["93.184.216.34"]
        with pytest.raises(socket.gaierror):
            look_up("unknown.example", 443)
    finally:
        go_on.set()
    assert [str(each) for each in look_up("slow.example", 443, 60)] == ["93.184.216.34"]
    with pytest.raises(socket.gaierror):
        look_up("unknown.example", 443)
    assert begun.count("unknown.example") == 2
    assert not _pending


def test_address_that_does_not_respond_leaves_time_for_the_next(
    hook: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection

    def drops_packets_of_the_first(address: Any, timeout: float) -> socket.socket:
        if address[0] == "127.0.0.9":
            threading.Event().wait(timeout)
            raise TimeoutError("timed out")
        return connect(address, timeout)

    monkeypatch.setattr("console.alerts.webhook.socket.create_connection", drops_packets_of_the_first)
    addresses = [ipaddress.ip_address(each) for each in ("127.0.0.9", "127.0.0.1")]
    monkeypatch.setattr("console.alerts.webhook.resolved", lambda *_: addresses)
    assert post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=2) == 200
    assert len(hook.requests) == 1
    hook.url = hook.url.replace("127.0.0.1", "receiver.example.org")
    addresses.pop()
    with pytest.raises(OSError, match=r"timed out|no response"):
        post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=0.1)


def test_nothing_is_sent_after_the_time_has_passed(hook: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the receiver would get a notification that counts as not delivered."""
    connect, aborted, abort = socket.create_connection, threading.Event(), _Connection.abort

    def connects_too_late(address: Any, timeout: float) -> socket.socket:
        made = connect(address, timeout)
        assert aborted.wait(20)
        return made

    def abort_without_a_socket(self: _Connection) -> None:
        abort(self)
        aborted.set()

    monkeypatch.setattr("console.alerts.webhook.socket.create_connection", connects_too_late)
    monkeypatch.setattr(_Connection, "abort", abort_without_a_socket)
    with pytest.raises(OSError, match=r"no response within 0\.1 s"):
        post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=0.1)
    assert not hook.requests


@pytest.mark.parametrize(("headers", "text", "delivered"), [("0", "", True), ("3", "abc", True), ("9", "abc", False)])
def test_complete_response_counts_though_the_time_passes_while_it_is_read(
    hook: Received, monkeypatch: pytest.MonkeyPatch, headers: str, text: str, delivered: bool
) -> None:
    hook.headers, hook.text = {"Content-Length": headers}, text
    respond = _Connection.getresponse

    def time_passes(self: _Connection) -> http.client.HTTPResponse:
        answer = respond(self)
        assert answer.fp.peek(len(text)) or not text
        self.abort()
        return answer

    monkeypatch.setattr(_Connection, "getresponse", time_passes)
    if delivered:
        assert post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK) == 200
        return
    with pytest.raises(OSError, match="no response within"):
        post(hook.url, "secret", {}, delivery="1", allowed=LOOPBACK)


def test_slow_handshake_is_bounded_by_the_time_of_the_request() -> None:
    finished = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.send(b"\x16\x03\x03\x40\x00")  # a record of the handshake with 16 KiB
            while not finished.wait(0.02):
                connection.send(b"\0")

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(2) as others:
        others.submit(drip, server)
        url = f"https://127.0.0.1:{server.getsockname()[1]}/"
        sent = others.submit(post, url, "secret", {}, delivery="1", allowed=LOOPBACK, timeout=0.5)
        try:
            with pytest.raises(OSError, match=r"no response within 0\.5 s"):
                sent.result(20)
        finally:
            finished.set()


def test_a_look_up_that_could_not_begin_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", too_many)
        with pytest.raises(OSError, match="could not be looked up"):
            look_up("127.0.0.1", 80)
    assert look_up("127.0.0.1", 80) == [ipaddress.ip_address("127.0.0.1")]
