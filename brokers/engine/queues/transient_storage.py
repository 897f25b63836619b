"""The storage of messages that need not survive a restart: in memory, or by policy in the temp store.

With `spool = disk`, messages that arrive while the queue is overfull go to the broker's temp store (ActiveMQ's file
cursor): producers are not blocked, and memory stays bounded. The temp store is emptied at each start. A body is removed
from memory when the temp store has confirmed it, and is loaded again before it is dispatched.
"""

from __future__ import annotations

from collections import deque

from brokers.engine.flow.metering import Meter
from brokers.engine.flow.producer import Producer, Receipt
from brokers.engine.flow.usage import Resource, Usage
from brokers.engine.queues.backlog import HERE, TEMP, Entry
from brokers.engine.queues.lane import PriorityLane
from brokers.engine.queues.lanes import PriorityLanes
from brokers.engine.queues.purging import Taken
from brokers.engine.queues.storage import Unsafe, UnsafeRun
from brokers.engine.values.message import Header, Message
from brokers.engine.values.outcomes import Verdict


class TransientStorage:
    """See `storage.Storage`. `temp_id`: the number of the queue in the temp store."""

    __slots__ = ("_gate", "_lanes", "_spooling", "_temp_id", "_turn", "stored", "unsafe")

    def __init__(self, lanes: PriorityLanes, temp_id: int) -> None:
        self._lanes = lanes
        self._gate = lanes.gate
        self._turn = lanes.turn
        self._temp_id = temp_id
        self._spooling: deque[tuple[int, int]] = deque()  # (ticket, number) of bodies not confirmed by the temp store
        self.unsafe: deque[Unsafe | UnsafeRun] = deque()  # always empty
        self.stored = 0

    @property
    def spooling(self) -> bool:
        gate = self._gate
        if not gate.limits.spools:
            return False
        return gate.state.overfull or any(usage.resource is Resource.MEMORY for usage in gate.shortages)

    # -- what is used -------------------------------------------------------------------------------------------

    def usages(self, meter: Meter) -> tuple[tuple[Usage, ...], tuple[Usage, ...]]:
        return (meter.memory, meter.temp) if self._gate.limits.spools else (meter.memory,), ()

    def resource_of(self, body: bytes) -> Resource:
        return self.resource

    @property
    def resource(self) -> Resource:
        """The resource that a message would use now."""
        spools = self.spooling or (self._gate.limits.spools and self._lanes.usual.deep)
        return Resource.TEMP if spools else Resource.MEMORY

    def resources(self, producer: Producer) -> tuple[Resource, ...]:
        return (self.resource,)

    def weigh(self, meter: Meter) -> None:
        if self._spooling and (temp := self._turn.temp()) is not None:
            meter.count_temp(temp)

    def has_room(self, lane: PriorityLane) -> bool:
        return not self.spooling

    # -- messages -----------------------------------------------------------------------------------------------

    def place(self, header: Header, body: bytes, producer: Producer | None, receipt: Receipt | None) -> Verdict:
        lanes = self._lanes
        header, body = lanes.timed(header, body)
        number = lanes.count(header, body)
        if not lanes.delay(number, body):
            lanes.make_visible(number, body)
        self._gate.check_depth()
        return Verdict.ACCEPTED

    def spool(self, number: int, body: bytes) -> None:
        temp = self._turn.temp() if self._gate.limits.spools else None
        if temp is not None:
            self._spooling.append((temp.put(self._temp_id, number, body), number))
            self._lanes.agenda.spooling.add(self._lanes.queue)

    def entry(self, number: int, body: bytes, expires: int) -> Entry:
        """Return an entry whose body stays in memory: a message from the temp store is being removed there, and a store
        takes each number once."""
        return number, len(body), HERE, body, expires

    def bodies(self, found: list[Entry]) -> dict[int, bytes] | None:
        bodies = {number: body for number, _, _, body, _ in found if body is not None}
        spooled = [number for number, _, place, *_ in found if place == TEMP]
        if spooled:
            temp = self._turn.temp()
            loaded = temp.load(self._temp_id, spooled) if temp is not None else None
            if loaded is None:
                return None
            bodies.update(loaded)
        return bodies

    def loaded(self, number: int, place: int) -> None:
        if place == TEMP and (temp := self._turn.temp()) is not None:
            temp.remove(self._temp_id, number)

    def forget(self, message: Message) -> None:
        """Do nothing: the body was only in memory."""

    def forget_entry(self, entry: Entry) -> None:
        self.loaded(entry[0], entry[2])

    def purge(self, taken: Taken) -> int:
        temp = self._turn.temp() if taken.count_at(TEMP) else None
        if temp is not None:
            for numbers in taken.behind():
                temp.purge(self._temp_id, numbers)
        return 0

    def left(self, messages: list[Message]) -> None:
        """Do nothing: the bodies were only in memory."""

    def drop_all(self) -> None:
        deep = any(lane.deep for lane in self._lanes.lanes)
        temp = self._turn.temp() if deep or self._spooling else None
        if temp is not None:
            temp.drop_queue(self._temp_id)
        self._spooling.clear()

    # -- confirmations of the stores ----------------------------------------------------------------------------

    def spooled(self, ticket: int, *, stored: bool) -> bool:
        spooling, temp, lanes = self._spooling, self._turn.temp(), self._lanes
        while spooling and spooling[0][0] <= ticket:
            _, number = spooling.popleft()
            if not stored or lanes.lane_of(number).backlog.moved(number) or lanes.delayed.moved(number):
                continue
            if temp is not None:
                temp.remove(self._temp_id, number)  # it was dispatched first
        return bool(spooling)
