"""Where RabbitMQ puts the messages of stopped classic queues when their node is restarted, and how they return.

A stop is `max-length` 0, and a node that starts applies that before it knows that the queue rejects: it drops all that
is in the queue (`rabbitmq_policies.py`). It applies a dead-letter exchange earlier. So a stop of a queue without one
has that of this module, which puts what is dropped into one queue of the virtual host (seen with 3.10). Some seconds
after a queue's publishers are started, its messages return, in their order, behind those that were published since.
What a consumer has rejected during the stop has come there, too, and is deleted then, as it would have been without
the stop.

Without the permission to create the queue a stop is made nevertheless, and a log line says what that means.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters.http import JsonHttp, part
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes
from brokers.adapters.rabbitmq_connection import Connecting, SourceLost, listener_of
from brokers.adapters.rabbitmq_known_policies import KnownPolicies
from brokers.adapters.rabbitmq_moving import Fate, Moved, Session, Taken, Target, move_back
from brokers.adapters.rabbitmq_policy_writer import PolicyWriter
from brokers.adapters.rabbitmq_properties import deaths
from brokers.adapters.rabbitmq_reading import NOT_RUNNING, PARKED, STOP_PREFIX
from brokers.admin import AdminError, NotFound
from brokers.model import ObjectName, queue_named

log = logging.getLogger("headgate.adapters")

#: Seconds until messages that were left are looked at again, if no queue was started.
AGAIN_SECONDS = 30.0


#: Messages that are parked, and the queues whose publishers are stopped.
_State = tuple[int, frozenset[str]]


class Parking:
    """See the module. `account`: for the messages to return; None: they are left in the queue."""

    def __init__(
        self,
        http: JsonHttp,
        writer: PolicyWriter,
        known: KnownPolicies,
        account: Account | None,
        alarms: Callable[[], Sequence[str]],
    ) -> None:
        self._http = http
        self._writer = writer
        self._known = known
        self._account = account
        self._alarms = alarms
        self._tasks: dict[str, asyncio.Task[None]] = {}  # virtual hosts -> whose messages return now
        self._lock = asyncio.Lock()  # for making and deleting the queue
        self._stopping: Counter[str] = Counter()  # virtual hosts in which a stop is being made
        self._empty: set[str] = set()  # virtual hosts whose queue was empty, without stops, in the last round
        self._left: dict[str, _State] = {}  # virtual hosts -> in which state a run was begun last
        self._not_before: dict[str, float] = {}  # virtual hosts -> the loop's time
        self._faults: dict[str, str] = {}  # virtual hosts -> what was logged last

    @asynccontextmanager
    async def during_stop(self, hosts: Collection[str]) -> AsyncIterator[frozenset[str]]:
        """Enclose a stop. Yields the virtual hosts in which its messages can be parked; until its end nothing is
        deleted in them again."""
        self._stopping.update(hosts)
        try:
            yield frozenset([host for host in hosts if await self._prepared(host)])
        finally:
            self._stopping.subtract(hosts)

    async def _prepared(self, host: str) -> bool:
        try:
            async with self._lock:
                await self._prepare(host)
        except AdminError as error:
            text = "the messages of a classic queue whose node is restarted during a stop are lost"
            self._log(host, f"{text}: {error}")
            return False
        return True

    async def _prepare(self, host: str) -> None:
        place = part(host)
        exchange = {"type": "fanout", "durable": True, "internal": True}
        # Not the virtual host's default: a quorum queue deletes what was taken too often without being acknowledged.
        queue = {"durable": True, "arguments": {"x-queue-type": "classic"}}
        await self._http.request("PUT", f"/exchanges/{place}/{PARKED}", body=exchange)
        await self._http.request("PUT", f"/queues/{place}/{PARKED}", body=queue)
        await self._http.request("POST", f"/bindings/{place}/e/{PARKED}/q/{PARKED}", body={})
        # Or a policy for all queues could limit it.
        name = policies.limit_name(PARKED)
        highest = self._known.listed.highest_priority(queue_named(host, PARKED), without=name)
        await self._writer.put(host, name, policies.unlimited(PARKED, highest), "")

    def look(self, depths: Mapping[ObjectName, Attributes]) -> None:
        """All queues were read: let messages return to queues whose publishers were started, and delete what no stop
        needs any more. `depths`: in messages, by queue, with those that are taken and not acknowledged."""
        now = asyncio.get_running_loop().time()
        for name, values in depths.items():
            host = name["virtualhost"]
            if name["name"] == PARKED and host not in self._tasks and not self._alarms():
                # RabbitMQ accepts nothing until its alarms end
                stopped = frozenset(self._stopped(host))
                if values["depth_messages"]:
                    self._empty.discard(host)
                    self._look_at(host, (values["depth_messages"], stopped), now)
                elif stopped or self._stopping[host]:
                    self._empty.discard(host)
                elif host in self._empty:
                    self._begin(host, self._clear(host))
                else:
                    self._empty.add(host)  # depths are some seconds old: the next round deletes it

    def _look_at(self, host: str, state: _State, now: float) -> None:
        """Begin a run if queues were started, or if the last one was some time ago and left or found something."""
        known = self._left.get(host)
        started = known is None or not known[1] <= state[1]
        if self._account is not None and (started or (known != state and now >= self._not_before.get(host, now))):
            self._left[host] = state
            self._not_before[host] = now + AGAIN_SECONDS
            self._begin(host, self._return(host, self._account))

    def _begin(self, host: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[host] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(host, None))

    async def _clear(self, host: str) -> None:
        """Delete the exchange, the limits and the queue, if it is empty. Messages come into it by stops only."""
        self._empty.discard(host)
        place = part(host)
        try:
            await self._known.read()
            async with self._lock:
                if self._stopped(host) or self._stopping[host]:
                    return
                with suppress(NotFound):
                    await self._http.request("DELETE", f"/exchanges/{place}/{PARKED}")
                await self._writer.delete(host, policies.limit_name(PARKED))
                with suppress(NotFound):
                    await self._http.request("DELETE", f"/queues/{place}/{PARKED}", query={"if-empty": "true"})
        except AdminError as error:
            self._log(host, f"queue {PARKED} is not deleted: {error}")

    def _stopped(self, host: str) -> Collection[str]:
        names = (str(policy["name"]) for policy in self._known.of(host))
        return {name.removeprefix(STOP_PREFIX) for name in names if name.startswith(STOP_PREFIX)}

    async def _return(self, host: str, account: Account) -> None:
        try:
            await self._known.read()
            moved = await self._moved(host, account)
        except (SourceLost, AdminError) as error:
            self._left.pop(host, None)  # again with the next round
            self._log(host, f"messages are left in queue {PARKED}: {error}")
        except Exception as error:  # what RabbitMQ sends has another form than expected
            self._left.pop(host, None)
            self._log(host, f"messages are left in queue {PARKED}: {error!r}")
        else:
            if moved.accepted:
                log.info("%s messages that were parked are in their queues again, in %s", f"{moved.accepted:,}", host)
            if moved.refused:
                self._left[host] = (0, frozenset(self._stopped(host)))  # again after some time
                self._log(host, f"messages are left in queue {PARKED}: their queues are full or refuse them")
            elif moved.left and not self._stopped(host):
                self._log(host, f"messages are left in queue {PARKED}: their queues are deleted or do not run")

    async def _moved(self, host: str, account: Account) -> Moved:
        overview = await self._http.request("GET", "/overview")
        listener = listener_of(self._http.base, overview.get("listeners") or [])
        if listener is None:
            raise SourceLost(f"no listener for AMQP 0-9-1 is shown to user {account.username}")
        listed = await self._http.request("GET", f"/queues/{part(host)}", query={"columns": "name,state"})
        running = {each["name"] for each in listed if each.get("state") not in NOT_RUNNING}
        ready = running - set(self._stopped(host))
        async with Session(Connecting(listener, account, host, "queue of parked messages")).opened() as session:
            return await move_back(session, PARKED, lambda message: _place(message, ready))

    def _log(self, host: str, text: str) -> None:
        if self._faults.get(host) != text:
            self._faults[host] = text
            log.warning("virtual host %s: %s", host, text)

    async def close(self) -> None:
        for task in (tasks := list(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _place(message: Taken, ready: Collection[str]) -> Target | Fate:
    """Return where a parked message belongs. `ready`: the queues that can have it. RabbitMQ puts the last death of a
    message first."""
    try:
        death = deaths(message.header)[0]
        queue, reason, key = str(death["queue"]), death["reason"], str(death["routing-keys"][0])
    except (KeyError, IndexError, TypeError, ValueError, struct.error):
        return Fate.LEFT  # another client has put it there
    if reason != "maxlen":
        return Fate.DELETED  # as the queue would have without the stop
    return Target(queue, key) if queue in ready else Fate.LEFT
