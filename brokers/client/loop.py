"""The thread of a connection: it runs Proton's container; no other thread uses Proton's objects.

It dials, reports to its owner what becomes of the connection, and dials again if the owner wants that.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from proton import Endpoint, Event, Handler
from proton.reactor import ApplicationEvent, Container, EventInjector

from brokers.client.errors import ClientError, ConnectionFailed

#: Delay before the first reconnection attempt, in seconds.
FIRST_PAUSE = 0.1
#: Time for which `stop` waits for the broker's close, in seconds.
CLOSE_TIMEOUT_SECONDS = 2.0


class LoopOwner(Protocol):
    """Callbacks for the state of the connection. All but `end` are called in its thread."""

    def opened(self) -> None: ...

    def lost(self, why: str) -> bool:
        """Return whether to reconnect."""

    def end(self, error: ClientError) -> None:
        """The connection has ended and will not be restored."""


class Loop(Handler):  # type: ignore[misc]  # Proton has no types
    """`session`: None while it is not usable."""

    def __init__(self, owner: LoopOwner, url: str, options: dict[str, Any], longest_pause: float) -> None:
        super().__init__()
        self.thread = threading.Thread(target=self._run, name=f"publisher to {url}", daemon=True)
        self.session: Any = None
        self._owner = owner
        self._url = url
        self._host = urlsplit(url).hostname
        self._options = options
        self._longest_pause = longest_pause
        self._failures = 0
        self._connection: Any = None
        self._why = ""
        self._stopping = False
        self._injector = EventInjector()
        self._guard = threading.Lock()  # prevents writes to the injector's closed pipe
        self._pipe_open = True
        self._container = Container(self)
        self._container.selectable(self._injector)

    # -- in any thread ------------------------------------------------------------------------------------------

    def ask(self, call: Callable[[], None]) -> None:
        with self._guard:
            if self._pipe_open:
                self._injector.trigger(ApplicationEvent("ask", subject=call))

    def stop(self) -> None:
        self.ask(self._leave)
        self.thread.join(CLOSE_TIMEOUT_SECONDS)
        if self.thread.is_alive():
            self.ask(self._container.stop)
            self.thread.join(CLOSE_TIMEOUT_SECONDS)

    # -- in its own thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._container.run()
        except Exception as error:  # a bug here must not leave other threads waiting
            self._owner.end(
                ConnectionFailed(f"the connection to {self._url} has ended by an internal error: {error!r}")
            )
            raise
        finally:
            with self._guard:
                self._pipe_open = False
                for end in self._injector.pipe:
                    with contextlib.suppress(OSError):
                        os.close(end)

    def _leave(self) -> None:
        self._stopping = True
        if self._connection is not None:
            self._connection.close()
        else:
            self._container.stop()

    def on_ask(self, event: Event) -> None:
        event.subject()

    def on_reactor_init(self, event: Event) -> None:
        self._dial()

    def on_timer_task(self, event: Event) -> None:
        self._dial()

    def _dial(self) -> None:
        if self._stopping:
            return
        try:  # Proton resolves the name, too, but does not survive a failure
            socket.getaddrinfo(self._host, None)
        except OSError as error:
            self._lost(f"{self._host}: {error.strerror or error}")
        else:
            # Proton's own reconnection would restore links with deliveries that no longer exist.
            self._connection = self._container.connect(self._url, handler=self, reconnect=False, **self._options)

    def on_connection_remote_open(self, event: Event) -> None:
        if event.connection == self._connection and not self._stopping:
            self._failures = 0
            self.session = self._connection.session()
            self.session.open()
            self._owner.opened()

    def on_connection_remote_close(self, event: Event) -> None:
        self._ended_by(event.connection.remote_condition)
        event.connection.close()

    def on_session_remote_close(self, event: Event) -> None:
        self._ended_by(event.session.remote_condition)
        if event.connection.state & Endpoint.LOCAL_ACTIVE:
            event.connection.close()

    def on_transport_error(self, event: Event) -> None:
        condition = event.transport.condition
        self._ended_by(condition)
        if condition is not None and condition.name == "amqp:unauthorized-access":
            self._owner.end(ConnectionFailed(f"{self._url} refused the sign-in: {self._why}"))

    def _ended_by(self, condition: Any) -> None:
        self._why = self._why or (str(condition.description or condition.name) if condition else "")

    def on_transport_closed(self, event: Event) -> None:
        if event.connection != self._connection:
            return
        self._connection = self.session = None
        why, self._why = self._why or "the broker closed the connection", ""
        self._lost(why)

    def _lost(self, why: str) -> None:
        if self._owner.lost(why) and not self._stopping:
            pause = min(FIRST_PAUSE * 2.0**self._failures, self._longest_pause)
            self._failures = min(self._failures + 1, 20)
            self._container.schedule(pause, self)
        else:
            self._container.stop()
