"""One connection to a broker, restored after a loss until the application closes it.

A connection that is lost is made again, for as long as it takes, with pauses that double from `FIRST_PAUSE` up to
`longest_pause`. Messages that wait for credit go on waiting across that, within their time limits. Messages that were
sent and not settled are not sent again, since the broker may have them: their sends raise SendInDoubt. A transaction
does not survive. Only a sign-in that is refused, and `close`, end a connection for good.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from proton import SSLDomain

from brokers.client.connect_options import proton_options
from brokers.client.deadlines import Clock, Deadline, SystemClock, check
from brokers.client.errors import ClientError, ConnectionFailed
from brokers.client.link import SenderLink
from brokers.client.loop import Loop
from brokers.client.publisher import Publisher
from brokers.client.settings import NOTIFY_PERIOD, SEND_TIMEOUT, setting
from brokers.client.transaction import Transaction

#: The default of a time: the environment's value applies.
FROM_ENVIRONMENT: Any = object()


def connect(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    virtual_host: str | None = None,
    ca: str | os.PathLike[str] | None = None,
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    ssl_domain: SSLDomain | None = None,
    password_in_clear: bool = False,
    name: str | None = None,
    connect_timeout: float | None = 30.0,
    heartbeat: float = 30.0,
    longest_pause: float = 5.0,
    clock: Clock | None = None,
) -> Connection:
    """Connect to `url`, such as `amqp://host:5672` or `amqps://host:5671`.

    Over `amqps://` the broker's certificate must be of the host in the URL, and by an authority in the PEM file `ca` or
    one that the system trusts. `certificate`: PEM files of a certificate and its key, with which it signs in (EXTERNAL)
    if there is no `user`. `ssl_domain`: Proton's own object, which says all of that instead.

    Without `user` it signs in as ANONYMOUS, with one by SASL PLAIN: over `amqp://` the password can be read on the way,
    so beyond this machine that needs `password_in_clear`. `virtual_host`: the broker's own name for one of its parts;
    `name`: what the broker's operators see, made up if it is missing. Times in seconds; `heartbeat`: silence after
    which the broker counts as lost; `connect_timeout` None: no limit. The module says what happens when it is lost.

    Raises ConnectionFailed if there is no connection within `connect_timeout`, ValueError for arguments that cannot be.
    """
    for name_of, value in (
        ("connect_timeout", connect_timeout),
        ("heartbeat", heartbeat),
        ("longest_pause", longest_pause),
    ):
        check(name_of, value)
    options = proton_options(
        url,
        user=user,
        password=password,
        virtual_host=virtual_host,
        ca=ca,
        certificate=certificate,
        ssl_domain=ssl_domain,
        password_in_clear=password_in_clear,
        name=name,
        heartbeat=heartbeat,
    )
    return Connection(url, options, connect_timeout, longest_pause, clock or SystemClock())


class Connection:
    """Created by `connect`. All threads can use it."""

    def __init__(
        self, url: str, options: dict[str, Any], timeout: float | None, longest_pause: float, clock: Clock
    ) -> None:
        self.url = url
        self.clock = clock
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        #: How often it was established. Deliveries and transactions of an earlier one are lost.
        self.epoch = 0
        #: Why nothing can be sent now, besides flow control; "" while it is connected.
        self.missing = f"not yet connected to {url}"
        self._ended: ClientError | None = None
        self._links: list[SenderLink] = []
        self._coordinator: SenderLink | None = None
        self._numbers = itertools.count(1)
        self._loop = Loop(self, url, options, longest_pause)
        self._loop.thread.start()
        try:
            self._wait_until_open(timeout)
        except BaseException:
            self.close()
            raise

    def _wait_until_open(self, timeout: float | None) -> None:
        deadline = Deadline(self.clock.now(), timeout, None)
        with self.lock:
            while self._ended is None and not self.epoch:
                now = self.clock.now()
                if deadline.over(now):
                    self.end(ConnectionFailed(f"cannot connect to {self.url} within {timeout:g} s: {self.missing}"))
                else:
                    self.clock.wait(self._changed, deadline.next(now))
            self.check_open()

    def publisher(
        self,
        address: str,
        *,
        send_timeout: float | None = FROM_ENVIRONMENT,
        notify_period: float | None = FROM_ENVIRONMENT,
    ) -> Publisher:
        """Publish to an address (a queue's name, `exchange/key`, or the broker's notation). Times in seconds,
        above 0: `send_timeout`, None: a send waits as long as it takes; `notify_period`, None: without a word. Left
        out: as the environment's HEADGATE_SEND_TIMEOUT and HEADGATE_NOTIFY_PERIOD say (seconds, or `none`), else 60 s
        and 5 s. The first `send` checks the permission. ValueError names a wrong time."""
        if send_timeout is FROM_ENVIRONMENT:
            send_timeout = setting(SEND_TIMEOUT)
        if notify_period is FROM_ENVIRONMENT:
            notify_period = setting(NOTIFY_PERIOD)
        return Publisher(self, address, f"{address}-{next(self._numbers)}", send_timeout, notify_period)

    def transaction(self, *, timeout: float | None = 30.0) -> Transaction:
        """Begin a local transaction, for messages of any publishers of this connection. `timeout`: maximum seconds for
        the broker to begin and to end it. Raises TransactionFailed."""
        return Transaction(self, timeout)

    def close(self) -> None:
        """Close the connection, orderly if the broker answers. Waiting sends raise ConnectionFailed. Idempotent."""
        self.end(ConnectionFailed(f"the connection to {self.url} was closed"))
        self._loop.stop()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- for this package ---------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self._ended is not None:
            raise ConnectionFailed(str(self._ended))

    def add(self, link: SenderLink) -> None:
        with self.lock:
            self.check_open()
            self._links.append(link)
        self.ask(lambda: self.attach(link))

    def remove(self, link: SenderLink) -> None:
        with self.lock:
            if link not in self._links:
                return
            self._links.remove(link)
        link.close()

    def coordinator(self) -> SenderLink:
        with self.lock:
            if self._coordinator is None:
                self._coordinator = SenderLink(self, None, "transactions")
                self.add(self._coordinator)
            return self._coordinator

    def ask(self, call: Callable[[], None]) -> None:
        """Run a function in the connection's thread."""
        self._loop.ask(call)

    def attach(self, link: SenderLink) -> None:
        """In the connection's thread."""
        if self._loop.session is not None:
            link.attach(self._loop.session)

    def opened(self) -> None:
        """In the connection's thread."""
        with self.lock:
            self.epoch += 1
            self.missing = ""
            self._changed.notify_all()
            links = list(self._links)
        for link in links:
            self.attach(link)

    def lost(self, why: str) -> bool:
        """In the connection's thread. Return whether to reconnect."""
        with self.lock:
            self.missing = f"not connected to {self.url}: {why}"
            if not self.epoch:
                self.end(ConnectionFailed(f"cannot connect to {self.url}: {why}"))
            self.epoch += bool(self.epoch)  # transactions that began before are lost
            for link in self._links:
                link.disconnected()
                link.lost(why, for_good=self._ended)
            return self._ended is None

    def end(self, error: ClientError) -> None:
        """The connection has ended and will not be restored."""
        with self.lock:
            if self._ended is None:
                self._ended = error
            for link in self._links:
                link.lost(str(self._ended), for_good=self._ended)
            self._changed.notify_all()
