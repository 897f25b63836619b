"""A complete broker in a thread of its own, and waiting for a condition, with a limit.

One at a time: the broker's buffers belong to its process. Its objects belong to its loop: look at them with `look`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from brokers.engine.queues.queue import Queue
from brokers.server.listening import TlsAddress
from brokers.server.service import SECRET, Service

T = TypeVar("T")

WITHIN = 8.0


def wait_until(condition: Callable[[], Any], what: str, within: float = WITHIN) -> Any:
    """Return the result of `condition` once it is true. Fails with `what` if it does not happen."""
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        time.sleep(0.005)
    return found


class BrokerThread:
    """`with BrokerThread(folder) as broker:` serves at `broker.url` until the end of the block."""

    def __init__(
        self,
        data: Path,
        *,
        demo: bool = True,
        port: int = 0,
        host: str = "127.0.0.1",
        tls: TlsAddress | None = None,
        segment_bytes: int = 1 << 20,
    ) -> None:
        self.data = data
        self.demo = demo
        self.port = port
        self.host = host
        self.tls = tls
        self.segment_bytes = segment_bytes
        self.stopped_within = 0.0  # s

    def __enter__(self) -> BrokerThread:
        self.data.mkdir(parents=True, exist_ok=True)
        self.loop = asyncio.new_event_loop()
        self.faults: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.faults.append(context))
        self.thread = threading.Thread(target=self.loop.run_forever, name="broker")
        self.thread.start()
        try:
            self.service: Service = self.run(self._start())
        except BaseException:
            self._end_loop()
            raise
        self.port = self.service.port
        return self

    async def _start(self) -> Service:
        service = Service(
            self.data,
            host=self.host,
            port=self.port,
            tls=self.tls,
            demo=self.demo,
            segment_bytes=self.segment_bytes,
        )
        await service.start()
        return service

    def __exit__(self, *exception: object) -> None:
        began = time.monotonic()
        try:
            self.run(self.service.stop())
        finally:
            self.stopped_within = time.monotonic() - began
            self._end_loop()
        assert not self.faults, f"faults in the broker's loop: {self.faults}"

    def _end_loop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(WITHIN)
        self.loop.close()

    # -- in the broker's loop -----------------------------------------------------------------------------------

    def run(self, what: Coroutine[Any, Any, T], within: float = WITHIN) -> T:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(within)

    def look(self, at: Callable[[Service], T]) -> T:
        """Return `at(service)`, called between two turns of the broker."""

        async def looked() -> T:
            return at(self.service)

        return self.run(looked())

    def do(self, change: Callable[[Service], T]) -> T:
        """Run `change(service)` as a turn of the broker."""

        def turn(service: Service) -> T:
            service.container.begin()
            try:
                return change(service)
            finally:
                service.container.finish()

        return self.look(turn)

    def until(self, condition: Callable[[Service], Any], what: str, within: float = WITHIN) -> Any:
        return wait_until(lambda: self.look(condition), what, within)

    def pass_time(self, ms: int) -> None:
        """Advance all clocks of the broker."""

        def pass_it(service: Service) -> None:
            service.clock._base_ns += ms * 1_000_000
            before = service.clock.time_of_day_ns
            service.clock.time_of_day_ns = lambda: before() + ms * 1_000_000

        self.look(pass_it)

    # -- what tests ask for ---------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"amqp://{self.host}:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"amqps://127.0.0.1:{self.service.tls_port}"

    def user(self, name: str, password: str | None = "geheim", **more: Any) -> None:
        """Create a user; password None: generated, or none with a certificate."""
        given = {"name": name, **({} if password is None else {"password": password}), **more}
        self.do(lambda s: s.broker.accounts.create(given))

    @property
    def secret(self) -> str:
        return (self.data / SECRET).read_text().strip()

    def queue(self, name: str, virtualhost: str = "default", **policy: int | str) -> None:
        """Create a queue."""
        self.do(lambda s: s.broker.create_queue(s.broker.virtualhost(virtualhost), name, policy))

    def see(self, name: str, get: Callable[[Queue], T], virtualhost: str = "default") -> T:
        """Return a value of a queue."""
        return self.look(lambda s: get(s.broker.queue(virtualhost, name)))

    def until_queue(
        self,
        name: str,
        condition: Callable[[Queue], Any],
        what: str,
        within: float = WITHIN,
        virtualhost: str = "default",
    ) -> Any:
        """Wait for a condition of a queue, which may be created later."""

        def seen(service: Service) -> Any:
            queue = service.broker.virtualhost(virtualhost).queues.get(name)
            return queue is not None and condition(queue)

        return self.until(seen, f"{what} (queue {name})", within)

    def depth(self, name: str) -> int:
        return self.see(name, lambda q: q.gate.depth_messages)

    def texts(self) -> list[str]:
        """The texts of all events so far."""
        return self.look(lambda s: [e.text for e in s.journal.read(0, 100_000)])
