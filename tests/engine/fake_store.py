"""A message store in memory; the test decides when it writes and when it fails."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

from brokers.engine.broker import Broker
from brokers.engine.ports import Place


class FakeStore:
    """`stored`: (queue, number) -> body, for written messages."""

    def __init__(self) -> None:
        self.stored: dict[tuple[int, int], bytes] = {}
        self.expiries: dict[tuple[int, int], int] = {}
        self.moves: list[tuple[Place, Place, bytes]] = []
        self.failed: dict[tuple[int, int], int] = {}
        self.puts: list[tuple[int, int, bytes]] = []
        self.removed: list[tuple[int, int]] = []
        self.groups: dict[int, tuple[list[tuple[int, int, bytes]], list[tuple[int, int]]]] = {}
        self.group = 0  # the transaction whose group is open
        self.ticket = 1
        self.used_bytes = 0
        self.pending_bytes = 0
        self.full = False
        self.readable = True
        self.names: dict[int, str] = {}
        self.loads = 0
        self.runs = 0  # calls of `put_run` and `remove_run`

    @property
    def buffered(self) -> int:
        return self.ticket if self.puts or self.removed or self.moves or self.groups else 0

    def put(self, queue: int, number: int, body: bytes, expires: int = 0) -> int:
        (self.groups[self.group][0] if self.group else self.puts).append((queue, number, body))
        self.expiries[queue, number] = expires
        return self.ticket

    def put_run(self, queue: int, first: int, bodies: Sequence[bytes], size: int) -> int:
        assert size == sum(map(len, bodies))
        self.runs += 1
        for number, body in enumerate(bodies, first):
            self.put(queue, number, body)
        return self.ticket

    def move(self, place: Place, to: Place, body: bytes, expires: int = 0) -> int:
        self.moves.append((place, to, body))
        self.expiries[to] = expires
        return self.ticket

    def remove(self, queue: int, number: int) -> int:
        (self.groups[self.group][1] if self.group else self.removed).append((queue, number))
        return self.ticket

    def remove_run(self, queue: int, numbers: Collection[int]) -> int:
        assert not self.group
        self.runs += 1
        self.removed += [(queue, number) for number in numbers]
        return self.ticket

    def purge(self, queue: int, numbers: array[int]) -> int:
        assert not self.group
        assert list(numbers) == sorted(set(numbers))
        self.runs += 1
        self.removed += [(queue, number) for number in numbers]
        return self.ticket

    def fail(self, queue: int, number: int, count: int) -> int:
        self.failed[queue, number] = count
        return self.ticket

    def name_queue(self, queue: int, name: str) -> None:
        self.names[queue] = name

    def begin(self, transaction: int) -> int:
        self.group = transaction
        self.groups[transaction] = ([], [])
        return self.ticket

    def end(self) -> None:
        self.group = 0

    def drop_queue(self, queue: int) -> int:
        self.removed += [place for place in self.stored if place[0] == queue]
        self.removed += [(q, number) for q, number, _ in self.puts if q == queue]
        return self.ticket

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes] | None:
        self.loads += 1
        if not self.readable:
            return None
        return {number: self.stored[queue, number] for number in numbers}

    def write(
        self, broker: Broker, virtualhost: str = "default", *, fault: bool = False, refused: Collection[int] = ()
    ) -> None:
        """Write the buffered changes, and confirm them to the broker. `fault`: messages are refused, removals are not.
        `refused`: the numbers of refused transactions."""
        if not fault:
            self.stored.update({(queue, number): body for queue, number, body in self.puts})
        for place, new_place, body in self.moves:
            del self.stored[place]
            self.stored[new_place] = body
        self.moves.clear()
        for transaction, (puts, removed) in self.groups.items():
            if transaction not in refused:
                self.stored.update({(queue, number): body for queue, number, body in puts})
                self.removed += removed
        for place in self.removed:
            self.stored.pop(place, None)
        self.puts, self.removed, self.groups = [], [], {}
        ticket, self.ticket = self.ticket, self.ticket + 1
        if virtualhost:
            broker.committed(virtualhost, ticket, stored=not fault, removed=True, refused=refused)
        else:
            broker.spooled(ticket, stored=not fault)


class FakeStores:
    """One store per virtual host, for the `stores` of a broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, FakeStore] = {}

    def open(self, virtualhost: str) -> FakeStore:
        return self.by_name.setdefault(virtualhost, FakeStore())

    def open_temp(self) -> FakeStore:
        """Return the temp store, which `write` confirms with "" as the virtual host."""
        return self.open("")

    def drop(self, virtualhost: str) -> None:
        del self.by_name[virtualhost]
