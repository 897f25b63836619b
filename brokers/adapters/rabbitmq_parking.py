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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from brokers.adapters import rabbitmq_policies as policies
from brokers.adapters.http import HttpError, JsonHttp, part
from brokers.adapters.kinds import Account
from brokers.adapters.observation import Attributes
from brokers.adapters.rabbitmq_connection import Connecting, SourceLost, listener_of
from brokers.adapters.rabbitmq_known_policies import KnownPolicies
from brokers.adapters.rabbitmq_moving import Fate, Moved, Session, Taken, Target, move_back
from brokers.adapters.rabbitmq_policy_writer import PolicyWriter
from brokers.adapters.rabbitmq_reading import PARKED, STOP_PREFIX
from brokers.admin import AdminError, BrokerUnreachable, NotFound
from brokers.model import ObjectName, queue_named

log = logging.getLogger("headgate.adapters")

#: Seconds until messages that their queues have refused are tried again.
AGAIN_SECONDS = 30.0


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
        self._left: dict[str, object] = {}  # virtual hosts -> in which state nothing more could return
        self._not_before: dict[str, float] = {}  # virtual hosts -> the loop's time
        self._faults: dict[str, str] = {}  # virtual hosts -> what was logged last

    async def prepare(self, hosts: Iterable[str]) -> frozenset[str]:
        """Make the exchange and the queue in virtual hosts, and return those in which they are. Raises
        BrokerUnreachable."""
        ready = set()
        for host in hosts:
            try:
                await self._prepare(host)
            except BrokerUnreachable:
                raise
            except AdminError as error:
                self._log(
                    host, f"the messages of a classic queue whose node is restarted during a stop are lost: {error}"
                )
            else:
                ready.add(host)
        return frozenset(ready)

    async def _prepare(self, host: str) -> None:
        place = part(host)
        exchange = {"type": "fanout", "durable": True, "internal": True}
        await self._http.request("PUT", f"/exchanges/{place}/{PARKED}", body=exchange)
        await self._http.request("PUT", f"/queues/{place}/{PARKED}", body={"durable": True})
        await self._http.request("POST", f"/bindings/{place}/e/{PARKED}/q/{PARKED}", body={})
        # Or a policy for all queues could limit it.
        name = policies.limit_name(PARKED)
        highest = self._known.listed.highest_priority(queue_named(host, PARKED), without=name)
        await self._writer.put(host, name, policies.unlimited(PARKED, highest), "")

    async def release(self, hosts: Iterable[str]) -> None:
        """Publishers were started in virtual hosts: delete what no stop needs any more. If messages are parked, `look`
        lets them return, when the queues have reported that they accept them."""
        for host in hosts:
            if not self._stopped(host):
                try:
                    await self._cleared(host)
                except NotFound:
                    continue
                except AdminError as error:
                    self._log(host, f"queue {PARKED} is not deleted: {error}")

    async def _cleared(self, host: str) -> bool:
        """Delete the queue with what belongs to it, and return True, unless it has messages. Raises NotFound."""
        place = part(host)
        try:
            await self._http.request("DELETE", f"/queues/{place}/{PARKED}", query={"if-empty": "true"})
        except HttpError as error:
            if error.status == 400:
                return False
            raise
        await self._http.request("DELETE", f"/exchanges/{place}/{PARKED}")
        await self._writer.delete(host, policies.limit_name(PARKED))
        return True

    def look(self, depths: Mapping[ObjectName, Attributes]) -> None:
        """All queues were read: let messages return that could not before. `depths`: in messages, by queue."""
        if self._alarms():
            return  # RabbitMQ accepts nothing until they end
        now = asyncio.get_running_loop().time()
        for name, values in depths.items():
            host = name["virtualhost"]
            if name["name"] != PARKED or not values["depth_messages"] or now < self._not_before.get(host, now):
                continue
            state = values["depth_messages"], frozenset(self._stopped(host))
            if self._left.get(host) != state:
                self._left[host] = state
                self._begin(host)

    def _stopped(self, host: str) -> Collection[str]:
        names = (str(policy["name"]) for policy in self._known.of(host))
        return {name.removeprefix(STOP_PREFIX) for name in names if name.startswith(STOP_PREFIX)}

    def _begin(self, host: str) -> None:
        if host not in self._tasks and self._account is not None:
            task = self._tasks[host] = asyncio.create_task(self._return(host, self._account))
            task.add_done_callback(lambda _: self._tasks.pop(host, None))

    async def _return(self, host: str, account: Account) -> None:
        try:
            moved = await self._moved(host, account)
            if moved.accepted:
                log.info("%s messages that were parked are in their queues again, in %s", f"{moved.accepted:,}", host)
            if moved.refused:
                self._log(host, f"{moved.refused:,} messages are left in queue {PARKED}: their queues are full")
                self._left.pop(host, None)
                self._not_before[host] = asyncio.get_running_loop().time() + AGAIN_SECONDS
            elif not self._stopped(host):
                with suppress(NotFound):
                    await self._cleared(host)
        except (SourceLost, AdminError) as error:
            self._left.pop(host, None)  # with a later round
            self._log(host, f"messages are left in queue {PARKED}: {error}")

    async def _moved(self, host: str, account: Account) -> Moved:
        overview = await self._http.request("GET", "/overview")
        listener = listener_of(self._http.base, overview.get("listeners") or [])
        if listener is None:
            raise SourceLost(f"no listener for AMQP 0-9-1 is shown to user {account.username}")
        listed = await self._http.request("GET", f"/queues/{part(host)}", query={"columns": "name"})
        ready = {each["name"] for each in listed} - set(self._stopped(host))
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
        death = message.headers["x-death"][0]
        queue, reason, key = str(death["queue"]), death["reason"], str(death["routing-keys"][0])
    except (KeyError, IndexError, TypeError, ValueError):
        return Fate.LEFT  # another client has put it there
    if reason != "maxlen":
        return Fate.DELETED  # as the queue would have without the stop
    return Target(queue, key) if queue in ready else Fate.LEFT
