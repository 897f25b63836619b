"""Operators' stops of a broker behind an adapter: whatever fails and whenever, nothing stays stopped that should not,
nothing runs that should not once the broker answers, and every limit gets back what it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.adapters.adapter import Objects, StopTarget
from brokers.adapters.inventory import Inventory
from brokers.adapters.observation import Observation
from brokers.adapters.records import StopChange
from brokers.adapters.stops import NotInForce, Stops
from brokers.adapters.store import AdapterStore
from brokers.admin import AdminError, BrokerUnreachable, InvalidValue
from brokers.engine.values.stops import End, Scope
from brokers.model import ObjectName
from tests.adapters.fake import STOPPED, Memory, MemoryAdapter, queue_name

ALL = Scope()
NAMES = ("a", "b", "c.1", "c.2")
LIMITS = {"a": 10, "b": 20, "c.1": 30, "c.2": 40}


class World:
    """A broker, its inventory and its stops, whose process can be killed and started again."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.memory = Memory(durable=durable)
        for name in NAMES:
            self.memory.add(name, LIMITS[name])
        self.adapter = MemoryAdapter(self.memory, lambda: 1000)
        self.path = folder / "adapter.sqlite3"
        self.announced: list[StopChange] = []
        self.now = 1000
        self.start()

    def start(self) -> None:
        self.store = AdapterStore(self.path)
        self.inventory = Inventory(self.adapter.types)
        self.stops = Stops(self.adapter, self.store, self.inventory.objects, self.announced.extend)

    def kill(self) -> None:
        self.store.close()
        self.start()

    def read(self) -> None:
        seen = {queue: self.adapter.attributes(queue) for queue in self.memory.limits}
        self.inventory.apply(Observation(self.now, seen, frozenset({"Queue"})))

    async def maintain(self) -> None:
        self.read()
        await self.stops.maintain(self.now, lambda queue: 100.0 * self.memory.depths[queue] / 100)
        self.read()

    def stopped(self) -> set[str]:
        return {queue["name"] for queue, limit in self.memory.limits.items() if limit == STOPPED}

    def limits(self) -> dict[str, int]:
        return {queue["name"]: limit for queue, limit in self.memory.limits.items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.read()
    return world


async def stop(world: World, *scopes: Scope, end: End = End()) -> list[Scope]:  # noqa: B008 - frozen
    return await world.stops.stop(scopes, reason="why", actor="ada", now=world.now, end=end)


async def start(world: World, *scopes: Scope, only: bool = False) -> list[Scope]:
    return await world.stops.start(scopes, actor="ada", only=only)


async def test_start_restores_what_the_stop_replaced(world: World) -> None:
    assert await stop(world, ALL) == [ALL]
    assert world.stopped() == set(NAMES)
    world.read()  # the stop is what is read now
    assert await stop(world, Scope("default", queue="a")) != []
    assert await start(world, ALL, only=True) == [ALL]
    assert world.stopped() == {"a"}
    world.read()
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_a_stop_right_after_a_start_restores_the_limit_of_before_both(world: World) -> None:
    await stop(world, ALL)
    world.read()
    await start(world, ALL)  # what was read last is still the first stop
    await stop(world, ALL)
    await world.maintain()
    assert world.stopped() == set(NAMES)
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_a_limit_that_is_changed_after_a_start_is_the_one_that_is_restored(world: World) -> None:
    await stop(world, ALL)
    world.read()
    await start(world, ALL)
    world.memory.limits[queue_name("a")] = 11
    world.stops.changed(queue_name("a"))
    world.memory.limits[queue_name("b")] = 21  # by another client
    for _ in range(2):
        await world.maintain()
    await stop(world, ALL)
    await start(world, ALL)
    assert world.limits() == {**LIMITS, "a": 11, "b": 21}


async def test_a_limit_that_another_client_changes_during_a_stop_is_the_one_that_is_restored(world: World) -> None:
    """The stop is made again, and what it hides is on record before."""
    await stop(world, ALL)
    await world.maintain()
    world.memory.limits[queue_name("a")] = 1000
    world.memory.silent.add(queue_name("a"))
    with pytest.raises(NotInForce):
        await world.maintain()
    world.kill()
    world.memory.silent.clear()
    await world.maintain()
    assert world.stopped() == set(NAMES)
    await start(world, ALL)
    assert world.limits() == {**LIMITS, "a": 1000}


async def test_repeated_stop_keeps_its_start_and_takes_the_new_end(world: World) -> None:
    await stop(world, ALL)
    world.now = 5000
    assert await stop(world, ALL) == []
    assert await stop(world, ALL, end=End(until=9000)) == [ALL]
    stored = world.stops.stops[ALL]
    assert (stored.since, stored.end.until) == (1000, 9000)


async def test_stop_that_fails_halfway_is_taken_back(world: World) -> None:
    world.memory.fails_after = 2
    with pytest.raises(BrokerUnreachable):
        await stop(world, ALL)
    assert not world.stops.stops
    assert not world.announced
    world.memory.fails_after = None
    await world.maintain()
    assert world.limits() == LIMITS


async def test_crash_in_the_middle_of_a_stop_leaves_a_record_that_completes_it(world: World) -> None:
    """The process is killed between the record and the last change: the operator got no answer, the stop is there."""
    original = world.adapter.stop

    async def dies(targets: object, **_: object) -> None:
        await original(list(targets)[:1])  # type: ignore[call-overload]
        world.kill()  # what runs on in the old process finds its file closed
        raise KeyboardInterrupt

    world.adapter.stop = dies  # type: ignore[method-assign]
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever the dying process meets
        await stop(world, ALL)
    world.adapter.stop = original  # type: ignore[method-assign]
    assert list(world.stops.stops) == [ALL]
    await world.maintain()
    assert world.stopped() == set(NAMES)
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_a_stop_and_a_start_whose_process_was_killed_before_the_event_are_announced_once(world: World) -> None:
    """The process is killed when the broker is stopped, or started, and the event is not stored yet."""

    def dies(changes: Sequence[StopChange]) -> None:
        raise KeyboardInterrupt

    for change in (stop, start):
        world.stops._announce = dies
        with pytest.raises(KeyboardInterrupt):
            await change(world, ALL)
        world.announced.clear()
        world.kill()
        await world.maintain()
        assert [(each.stop.scope, each.began) for each in world.announced] == [(ALL, change is stop)]
        world.store.remember({}, None, world.stops.unannounced)  # as with the event
        world.kill()
        await world.maintain()
        assert len(world.announced) == 1


async def test_a_stop_that_is_taken_back_is_never_announced(world: World) -> None:
    world.memory.fails_after = 2
    with pytest.raises(BrokerUnreachable):
        await stop(world, ALL)
    world.memory.fails_after = None
    world.kill()
    await world.maintain()
    assert not world.announced


async def test_start_without_an_answer_is_completed_later(world: World) -> None:
    await stop(world, ALL)
    world.memory.up = False
    with pytest.raises(BrokerUnreachable):
        await start(world, ALL)
    assert [change.began for change in world.announced] == [True, False]
    world.kill()
    world.memory.up = True
    await world.maintain()
    assert world.limits() == LIMITS


async def test_stop_right_after_a_start_restores_what_was_there_before_both(world: World) -> None:
    """Nothing was read in between: the inventory has the limits of the first stop."""
    await stop(world, ALL)
    world.read()
    await start(world, ALL)
    await stop(world, ALL)
    assert world.stopped() == set(NAMES)
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_stop_right_after_one_that_failed_and_was_undone_restores_what_was_there_before(world: World) -> None:
    world.memory.fails_after = 2
    with pytest.raises(BrokerUnreachable):
        await stop(world, ALL)
    world.memory.fails_after = None
    world.read()
    await world.stops.maintain(world.now, lambda queue: None)
    await stop(world, ALL)
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_limit_that_was_changed_after_a_start_is_restored_by_the_next(world: World) -> None:
    await stop(world, ALL)
    world.read()
    await start(world, ALL)
    world.read()
    world.memory.set_limit(queue_name("a"), 77)
    world.read()
    await stop(world, ALL)
    await start(world, ALL)
    assert world.limits() == {**LIMITS, "a": 77}


async def test_a_round_does_not_wait_for_a_request(world: World) -> None:
    """The stop of a broker can take half a minute: meanwhile what is read is shown."""
    called = asyncio.Event()

    async def hangs(targets: object, **_: object) -> None:
        called.set()
        await asyncio.Event().wait()

    world.adapter.stop = hangs  # type: ignore[assignment, method-assign]
    stopping = asyncio.ensure_future(stop(world, ALL))
    await called.wait()
    await world.maintain()
    assert not stopping.done()
    stopping.cancel()
    with suppress(asyncio.CancelledError):
        await stopping


async def test_stop_again_while_the_start_has_not_reached_the_broker(world: World) -> None:
    await stop(world, ALL)
    world.memory.fails_after = 2  # the start reaches two of the four
    with pytest.raises(BrokerUnreachable):
        await start(world, ALL)
    world.memory.fails_after = None
    world.read()
    await stop(world, ALL)
    assert world.stopped() == set(NAMES)
    world.read()
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_broker_that_forgets_stops_is_stopped_again_and_new_queues_with_it(tmp_path: Path) -> None:
    world = World(tmp_path, durable=False)
    world.read()
    await stop(world, Scope("default", pattern="c.>"))
    world.memory.restart()
    assert not world.stopped()
    world.memory.add("c.3", 7)
    await world.maintain()
    assert world.stopped() == {"c.1", "c.2", "c.3"}
    await start(world, ALL)
    assert world.limits() == {**LIMITS, "c.3": 7}


async def test_a_stop_covers_new_queues_also_beyond_what_one_request_may_stop(world: World) -> None:
    world.adapter.most_stopped = 5
    await stop(world, ALL)
    for number in range(3):
        world.memory.add(f"later.{number}", 5)
    await world.maintain()
    assert world.stopped() == set(world.limits())
    assert len(world.stopped()) == 7
    wide, named = Scope("default"), [Scope("default", queue=name) for name in world.limits()]
    for scopes in ([wide], named):
        with pytest.raises(InvalidValue, match="7 queues are more than the 5 that one stop covers"):
            await stop(world, *scopes)
        with pytest.raises(InvalidValue, match="7 queues"):
            world.stops.planned(scopes)
    assert list(world.stops.stops) == [ALL]


async def test_a_stop_that_cannot_be_made_any_more_is_reported_and_hinders_no_other(world: World) -> None:
    await stop(world, Scope("default", pattern="c.>"))
    await stop(world, Scope("default", queue="a"))
    await stop(world, Scope("default"))
    plan = world.adapter.stop_targets

    def refusing(scopes: Sequence[Scope], objects: Objects) -> Mapping[Scope, Sequence[StopTarget]]:
        if any(scope.pattern or scope.queue for scope in scopes):
            raise InvalidValue({"": "it cannot be stopped"})
        return plan(scopes, objects)

    world.adapter.stop_targets = refusing  # type: ignore[method-assign]
    world.memory.add("later", 5)
    with pytest.raises(NotInForce, match=r"c\.>: .*it cannot be stopped"):  # and not of "a", which is stopped
        await world.maintain()
    assert "later" in world.stopped()


async def test_queue_that_is_not_listed_for_a_while_gets_its_limit_back(world: World) -> None:
    """A broker that is starting lists fewer queues. Its queue comes back with the stop's limit, which must not be taken
    for its own."""
    await stop(world, ALL)
    missing = world.memory.limits.pop(queue_name("a"))
    await world.maintain()
    world.kill()
    await world.maintain()
    world.memory.limits[queue_name("a")] = missing
    await world.maintain()
    await start(world, ALL)
    assert world.limits() == LIMITS


async def test_stops_end_by_time_and_by_depth(world: World) -> None:
    for name in NAMES:
        world.memory.depths[queue_name(name)] = 50
    await stop(world, Scope("default", queue="a"), end=End(until=2000))
    await stop(world, Scope("default", pattern="c.>"), end=End(below=20))
    await world.maintain()
    assert world.stopped() == {"a", "c.1", "c.2"}
    world.now = 2000
    world.memory.depths[queue_name("c.1")] = 20
    await world.maintain()
    assert world.stopped() == {"c.1", "c.2"}  # one of them is above
    world.memory.depths[queue_name("c.2")] = 0
    await world.maintain()
    assert world.limits() == LIMITS
    assert [change.automatic for change in world.announced] == [False, False, True, True]


@pytest.mark.parametrize("fault", ["denied", "silent"])
async def test_one_queue_that_cannot_be_started_hinders_neither_the_others_nor_what_a_round_does(
    world: World, fault: str
) -> None:
    a, failing = queue_name("a"), getattr(world.memory, fault)
    await stop(world, ALL)
    await stop(world, Scope("default", queue="b"))
    world.read()
    failing.add(a)
    with pytest.raises(AdminError, match=r"a$"):
        await start(world, ALL, only=True)
    assert world.limits() == {**LIMITS, "a": STOPPED, "b": STOPPED}
    assert [stopped.target.id for stopped in world.store.targets()] == [str(a), str(queue_name("b"))]
    world.memory.limits[queue_name("b")] = 20  # by another client
    world.kill()
    for _ in range(2):
        with pytest.raises(NotInForce, match=r"name=a.*: .*a$"):
            await world.maintain()
        assert world.limits() == {**LIMITS, "a": STOPPED, "b": STOPPED}  # the stop that is left is in force
    failing.clear()
    await world.maintain()
    assert world.limits() == {**LIMITS, "b": STOPPED}


async def test_a_broker_that_gives_no_answer_twice_is_not_tried_for_each_queue(world: World) -> None:
    await stop(world, ALL)
    tried: list[str] = []

    def away(queue: ObjectName, limit: int) -> None:
        tried.append(queue["name"])
        raise BrokerUnreachable("no answer")

    world.memory.set_limit = away  # type: ignore[method-assign]
    with pytest.raises(BrokerUnreachable):
        await start(world, ALL)
    assert tried == ["a", "b"]


SCOPES = st.sampled_from(
    [ALL, Scope("default"), Scope("default", pattern="c.>"), *(Scope("default", queue=name) for name in NAMES)]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stop"), SCOPES),
        st.tuples(st.just("start"), SCOPES),
        st.tuples(st.just("only"), SCOPES),
        st.tuples(st.just("fail"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["kill", "restart", "maintain", "down", "up"]), st.none()),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(STEPS, st.booleans())
def test_whatever_happens_the_broker_ends_as_the_operator_wanted(
    steps: list[tuple[str, object]], durable: bool
) -> None:
    """The oracle is a set of scopes: those of stops that were answered, without those of starts, answered or not."""

    async def run(folder: Path) -> None:
        world = World(folder, durable=durable)
        await world.maintain()
        wanted: set[Scope] = set()
        for step, value in steps:
            try:
                await take(world, wanted, step, value)
            except AdminError:
                assert world.memory.fails_after is not None or not world.memory.up
            assert set(world.stops.stops) == wanted
        world.memory.up, world.memory.fails_after = True, None
        await world.maintain()
        covered = {name for name in NAMES if any(scope.covers("default", name) for scope in wanted)}
        assert world.stopped() == covered
        await start(world, ALL)
        assert world.limits() == LIMITS
        assert not world.store.targets()
        world.store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def take(world: World, wanted: set[Scope], step: str, value: object) -> None:
    """Take a step in the world, and in the oracle."""
    match step, value:
        case "stop", Scope() as scope:
            await stop(world, scope)
            wanted.add(scope)
        case ("start" | "only") as kind, Scope() as scope:
            only = kind == "only"
            wanted -= {each for each in wanted if (each == scope if only else scope.contains(each))}
            await start(world, scope, only=only)
        case "fail", int() as count:
            world.memory.fails_after = count
        case _:
            await events(world)[step]()


def events(world: World) -> dict[str, Callable[[], Awaitable[None]]]:
    """What happens to the broker and to the process."""

    async def kill() -> None:
        world.kill()
        world.read()

    async def restart() -> None:
        world.memory.restart()

    async def down() -> None:
        world.memory.up = False

    async def up() -> None:
        world.memory.up, world.memory.fails_after = True, None

    return {"kill": kill, "restart": restart, "down": down, "up": up, "maintain": world.maintain}
