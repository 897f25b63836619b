"""Each change of a broker is one event, whatever becomes of the broker's reports of it, and in whichever order reports
and the answers of polls arrive."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.adapters.capabilities import Capability, types_of
from brokers.adapters.differences import policy_facts
from brokers.adapters.file_records import FileRecords
from brokers.adapters.inventory import Round
from brokers.adapters.observation import Observation, Reported
from brokers.adapters.observed import Observed
from brokers.adapters.reconciliation import LATE_MS, WAIT_MS
from brokers.admin import Event
from brokers.model import ObjectName, object_name
from tests.adapters.fake import BROKER, Memory, MemoryAdapter, queue_name

ONE, TWO = queue_name("one"), queue_name("two")
KINDS = frozenset({"queue-overfull", "queue-underfull"})


@dataclass
class Scene:
    """A broker whose queues become overfull and underfull, a source that reports it, and a poll; all in the hands of
    the test. `words`: the reports have words of their own; else the changes are described from what is observed."""

    folder: Path
    words: bool
    now: int = 1_000_000
    overfull: dict[ObjectName, bool] = field(default_factory=lambda: {ONE: False, TWO: False})
    changes: int = 0
    reports: list[Reported] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.adapter = MemoryAdapter(Memory(), lambda: self.now)
        self.open()
        self.poll()

    def open(self) -> None:
        self.journal = FileRecords(self.folder)
        self.observed = Observed(self.adapter, self.journal, lambda: self.now)
        self.requested: tuple[ExitStack, int, Observation] | None = None

    def close(self) -> None:
        if self.requested is not None:
            self.requested[0].close()
        self.journal.close()

    # -- what can happen ------------------------------------------------------------------------------------------

    def change(self, queue: ObjectName) -> None:
        self.now += 1
        self.changes += 1
        overfull = self.overfull[queue] = not self.overfull[queue]
        if self.adapter.reports:
            kind = "queue-overfull" if overfull else "queue-underfull"
            words = "Overfull" if self.words else ""
            self.reports.append(Reported(self.now, kind, queue, words, {}, {"overfull": overfull}))

    def request(self) -> None:
        """Request what there is, unless a request is under way."""
        if self.requested is None:
            stack = ExitStack()
            since = stack.enter_context(self.observed.freshness.request())
            objects = {q: {**dict(q.keys), "overfull": o} for q, o in self.overfull.items()}
            self.requested = stack, since, Observation(self.now, {BROKER: {"shortages": []}, **objects})

    def arrive(self) -> None:
        """Take over the answer of what was requested."""
        if self.requested is not None:
            (stack, since, seen), self.requested = self.requested, None
            done = Round()
            done.add(seen)
            with stack:
                self.observed.apply(seen, since=since)
                self.observed.end_round(done, self.now, since)

    def poll(self) -> None:
        self.arrive()
        self.request()
        self.arrive()

    def deliver(self) -> None:
        if self.reports:
            self.observed.reported(self.reports.pop(0))

    def lose(self) -> None:
        if self.reports:
            self.reports.pop(0)

    def end_source(self) -> None:
        self.reports.clear()
        self.adapter.reports = frozenset()

    def begin_source(self) -> None:
        self.adapter.reports = KINDS

    def wait(self, ms: int) -> None:
        """Let time pass; the source does not deliver what is later than it is recognized."""
        self.now += ms
        self.reports = [report for report in self.reports if self.now - report.at < LATE_MS]

    def restart(self) -> None:
        """Stop the process, and start it again on the same files."""
        self.observed.reports_ended()
        self.kill()

    def kill(self) -> None:
        self.end_source()
        self.close()
        self.open()

    # -- what came of it ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything come to an end."""
        self.arrive()
        self.poll()
        self.wait(WAIT_MS)
        self.poll()

    def events(self, queue: ObjectName) -> list[Event]:
        return [event for event in self.journal.read(0, 100_000) if event.object == queue]

    def check(self) -> None:
        """Each queue's events alternate, from the first state to the present one."""
        for queue, overfull in self.overfull.items():
            kinds = [event.kind for event in self.events(queue)]
            expected = ["queue-overfull", "queue-underfull"] * (len(kinds) // 2 + 1)
            assert kinds == expected[: len(kinds)]
            assert len(kinds) % 2 == overfull


@contextmanager
def scene(*, words: bool = True) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as folder:
        made = Scene(Path(folder), words)
        try:
            yield made
        finally:
            made.close()


QUEUES = st.sampled_from([ONE, TWO])
ANYTHING = st.one_of(
    st.tuples(st.just("change"), QUEUES),
    st.tuples(
        st.sampled_from(["request", "arrive", "deliver", "deliver", "lose", "end_source", "begin_source", "kill"])
    ),
    st.tuples(st.just("wait"), st.sampled_from([100, 2_000, WAIT_MS])),
)


@settings(max_examples=60, deadline=None)
@given(words=st.booleans(), steps=st.lists(ANYTHING, max_size=40))
def test_events_alternate_whatever_is_lost_or_late(words: bool, steps: list[tuple[object, ...]]) -> None:
    with scene(words=words) as broker:
        broker.begin_source()
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
        broker.settle()
        broker.check()
        assert len(broker.events(ONE) + broker.events(TWO)) <= broker.changes


SEEN = st.one_of(
    st.tuples(st.just("change"), QUEUES),
    st.tuples(st.sampled_from(["deliver", "lose", "end_source", "begin_source", "restart", "poll"])),
    st.tuples(st.just("wait"), st.sampled_from([100, 2_000, WAIT_MS])),
)


@settings(max_examples=60, deadline=None)
@given(words=st.booleans(), steps=st.lists(SEEN, max_size=40))
def test_change_that_a_poll_sees_is_exactly_one_event_whatever_becomes_of_its_report(
    words: bool, steps: list[tuple[object, ...]]
) -> None:
    with scene(words=words) as broker:
        broker.begin_source()
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
            if step == "change":
                broker.poll()
        broker.settle()
        broker.check()
        assert len(broker.events(ONE) + broker.events(TWO)) == broker.changes


@settings(max_examples=30, deadline=None)
@given(
    words=st.booleans(),
    steps=st.lists(
        st.one_of(st.tuples(st.just("change"), QUEUES), st.tuples(st.sampled_from(["request", "arrive", "deliver"]))),
        max_size=40,
    ),
)
def test_change_that_is_reported_in_time_has_the_brokers_time_of_it(
    words: bool, steps: list[tuple[object, ...]]
) -> None:
    with scene(words=words) as broker:
        broker.begin_source()
        times: dict[ObjectName, list[int]] = {ONE: [], TWO: []}
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
            if step == "change":
                times[broker.reports[-1].object].append(broker.now)
        while broker.reports:
            broker.deliver()
        broker.settle()
        broker.check()
        for queue, expected in times.items():
            assert [event.at for event in broker.events(queue)] == expected
            assert not any("seen_at" in event.attributes for event in broker.events(queue))


def test_report_and_poll_write_the_same_line() -> None:
    with scene(words=False) as broker:
        broker.change(ONE)
        broker.poll()
        broker.change(ONE)
        broker.poll()
        broker.begin_source()
        broker.change(ONE)
        broker.deliver()
        polled, _, reported = broker.events(ONE)
        assert polled.text == reported.text
        assert polled.text.startswith("[vh(/default)/qu(one)] QUE-1003 : Overfull")


def test_report_on_an_object_that_no_poll_has_shown_is_not_found_again() -> None:
    with scene() as broker:
        broker.begin_source()
        broker.overfull[queue_name("new")] = False
        broker.change(queue_name("new"))
        broker.deliver()
        broker.settle()
        kinds = [event.kind for event in broker.events(queue_name("new"))]
        assert kinds == ["queue-overfull", "queue-created"]


@pytest.mark.parametrize("report", ["early", "late", "never"])
def test_report_of_a_change_by_headgate_is_no_second_event(report: str) -> None:
    name, known = (
        object_name("Policy", virtualhost="default", pattern="^a"),
        {"virtualhost": "default", "pattern": "^a"},
    )
    with scene() as broker:
        policies = types_of({"Policy": Capability((), writable=("capacity_messages",), creatable=True)})
        broker.adapter.types = {**broker.adapter.types, **policies}
        broker.adapter.reports = frozenset({"policy-changed"})
        observed = broker.observed

        def poll(capacity: int) -> None:
            with observed.freshness.request() as since:
                observed.apply(Observation(broker.now, {name: {**known, "capacity_messages": capacity}}), since=since)

        def said(capacity: int, actor: str) -> None:
            observed.reported(
                Reported(broker.now, "policy-changed", name, "", {"actor": actor}, {"capacity_messages": capacity})
            )

        poll(5)
        with observed.freshness.change(name, ["capacity_messages"]):
            if report == "early":
                said(6, "headgate")
            poll(6)  # an answer that comes before the change is read back
            own = policy_facts(name, {"capacity_messages": 5}, {"capacity_messages": 6}, broker.now, actor="ada")
            seen = Observation(broker.now, {name: {**known, "capacity_messages": 6}})
            observed.apply(seen, instead=own, kinds=("policy-changed",))
        if report == "late":
            said(6, "headgate")
        broker.wait(1)
        said(7, "bob")
        for _ in range(2):
            poll(7)
            broker.wait(WAIT_MS)
        poll(7)
        actors = [event.attributes.get("actor") for event in broker.events(name)]
        assert actors == ["ada", "bob"]


POLICY = object_name("Policy", virtualhost="default", pattern="^a")
OTHER = object_name("Policy", virtualhost="default", pattern="^b")
POLICIES = types_of({"Policy": Capability((), writable=("capacity_messages", "overflow"), creatable=True)})
Values = dict[str, object]
FIRST: Values = {"capacity_messages": 1, "overflow": "producers"}


class Policies(Scene):
    """A policy that others change, as RabbitMQ reports it: each report has its values and its user. `skew`: how much
    the broker's clock is ahead, ms."""

    skew = 0

    def __post_init__(self) -> None:
        self.adapter = MemoryAdapter(Memory(), lambda: self.now)
        self.adapter.types = {**self.adapter.types, **POLICIES}
        self.values: Values | None = FIRST
        self.open()
        self.poll()

    def set(self, values: Values | None) -> None:
        """Set some values; None: delete the policy."""
        after = None if values is None else {**(self.values or FIRST), **values}
        if after == self.values:
            return
        self.now += 1
        self.changes += 1
        self.values = after
        if self.adapter.reports:
            observed = None if after is None else {**dict(POLICY.keys), **after}
            actor = {"actor": f"user {self.changes}"}
            self.reports.append(Reported(self.now + self.skew, "policy-changed", POLICY, "", actor, observed))

    def request(self) -> None:
        if self.requested is None:
            stack = ExitStack()
            since = stack.enter_context(self.observed.freshness.request())
            policies = {} if self.values is None else {POLICY: {**dict(POLICY.keys), **self.values}}
            objects = {BROKER: {"shortages": []}, OTHER: dict(OTHER.keys), **policies}  # so there always is a policy
            self.requested = stack, since, Observation(self.now, objects)

    def begin_source(self) -> None:
        self.adapter.reports = frozenset({"policy-changed"})

    def wait(self, ms: int) -> None:
        self.now += ms
        self.reports = [report for report in self.reports if self.now + self.skew - report.at < LATE_MS]

    def check(self) -> None:
        """Each event begins with the values that the one before has left, and the last has left the present ones."""
        state = FIRST
        for event in self.events(POLICY):
            before, after = event.attributes["before"], event.attributes["after"]
            assert {key: state.get(key) for key in before} == before
            state = {} if event.attributes["change"] == "deleted" else {**state, **after}
        assert state == (self.values or {})


VALUES = st.none() | st.fixed_dictionaries(
    {}, optional={"capacity_messages": st.integers(1, 5), "overflow": st.sampled_from(["producers", "oldest"])}
)
TO_POLICIES = st.one_of(
    st.tuples(st.just("set"), VALUES),
    st.tuples(
        st.sampled_from(["request", "arrive", "deliver", "deliver", "lose", "end_source", "begin_source", "kill"])
    ),
    st.tuples(st.just("wait"), st.sampled_from([100, 2_000, WAIT_MS, LATE_MS // 2])),
)
SKEWS = st.sampled_from([0, -10_000, 10_000])


@contextmanager
def policies(skew: int = 0) -> Iterator[Policies]:
    with tempfile.TemporaryDirectory() as folder:
        made = Policies(Path(folder), words=False)
        made.skew = skew
        try:
            yield made
        finally:
            made.close()


@settings(max_examples=60)
@given(skew=SKEWS, steps=st.lists(TO_POLICIES, max_size=40))
def test_change_of_a_policy_is_reported_whatever_was_lost_before(skew: int, steps: list[tuple[object, ...]]) -> None:
    """The first change whose report comes at once has its time and user, however many reports before it were lost."""
    with policies(skew) as broker:
        broker.begin_source()
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
        broker.end_source()
        broker.arrive()
        broker.begin_source()
        broker.poll()
        broker.wait(1)
        broker.set({"capacity_messages": 99})
        broker.deliver()
        last = broker.events(POLICY)[-1]
        assert (last.attributes["after"]["capacity_messages"], last.at) == (99, broker.now + skew)
        assert last.attributes["actor"] == f"user {broker.changes}"
        assert "seen_at" not in last.attributes
        broker.settle()
        broker.check()
        assert broker.events(POLICY)[-1] == last


@settings(max_examples=60)
@given(skew=SKEWS, steps=st.lists(TO_POLICIES, max_size=40))
def test_changes_of_a_policy_follow_each_other_whatever_is_lost_or_late(
    skew: int, steps: list[tuple[object, ...]]
) -> None:
    with policies(skew) as broker:
        broker.begin_source()
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
        broker.settle()
        broker.check()


@settings(max_examples=60)
@given(
    skew=SKEWS,
    steps=st.lists(
        st.one_of(st.tuples(st.just("set"), VALUES), st.tuples(st.sampled_from(["poll", "deliver", "request"]))),
        max_size=30,
    ),
)
def test_no_change_of_a_policy_is_two_events_if_no_report_is_lost(skew: int, steps: list[tuple[object, ...]]) -> None:
    with policies(skew) as broker:
        broker.begin_source()
        broker.set({"capacity_messages": 98})
        broker.deliver()
        for step, *arguments in steps:
            getattr(broker, str(step))(*arguments)
        while broker.reports:
            broker.deliver()
        broker.settle()
        broker.check()
        found = broker.events(POLICY)
        assert len(found) <= broker.changes
        assert not any("seen_at" in event.attributes for event in found)


def test_changes_after_several_lost_reports_are_reported_at_once() -> None:
    """Once, each report was taken for that of the change before, and all changes came from polls from then on."""
    with policies() as broker:
        broker.begin_source()
        for length in range(10, 15):
            broker.set({"capacity_messages": length})
            broker.lose()
            broker.poll()
            broker.wait(WAIT_MS)
        for length in range(20, 25):
            broker.poll()
            broker.wait(1)
            broker.set({"capacity_messages": length})
            broker.deliver()
            broker.wait(WAIT_MS)
        broker.settle()
        broker.check()
        reported = [event.attributes.get("actor") for event in broker.events(POLICY)]
        assert reported == [None] * 5 + [f"user {number}" for number in range(6, 11)]


def test_answer_from_before_a_change_does_not_undo_it() -> None:
    """Else the next one would find the change a second time: two events of changes that never were."""
    with scene() as broker:
        observed, orders = broker.observed, {**dict(ONE.keys), "overfull": False}
        observed.apply(Observation(broker.now, {ONE: {**orders, "capacity_messages": 5}}))
        before = len(broker.events(ONE))
        with observed.freshness.request() as since:
            with observed.freshness.change(ONE, ["capacity_messages"]):
                own = policy_facts(ONE, {"capacity_messages": 5}, {"capacity_messages": 6}, broker.now, actor="ada")
                seen = Observation(broker.now, {ONE: {**orders, "capacity_messages": 6}})
                observed.apply(seen, instead=own, kinds=("policy-changed",))
            observed.apply(Observation(broker.now, {ONE: {**orders, "capacity_messages": 5}}), since=since)
        assert observed.inventory.objects[ONE]["capacity_messages"] == 6
        assert len(broker.events(ONE)) == before + 1
        with observed.freshness.request() as since:
            observed.apply(Observation(broker.now, {ONE: {**orders, "capacity_messages": 7}}), since=since)
        assert observed.inventory.objects[ONE]["capacity_messages"] == 7
        assert len(broker.events(ONE)) == before + 2


def test_answers_from_before_a_creation_and_a_deletion_do_not_undo_them() -> None:
    with scene() as broker:
        observed, new = broker.observed, queue_name("new")
        without = {q: {**dict(q.keys), "overfull": False} for q in (ONE, TWO)}
        with observed.freshness.request() as before:
            with observed.freshness.change(new, []):
                observed.apply(Observation(broker.now, {new: dict(new.keys)}))
            observed.apply(Observation(broker.now, without, frozenset({"Queue"})), since=before)
        assert new in observed.inventory.objects
        with observed.freshness.request() as before:
            with observed.freshness.change(new, []):
                observed.removed(new)
            observed.apply(Observation(broker.now, {**without, new: dict(new.keys)}), since=before)
        assert [event.kind for event in broker.events(new)] == ["queue-created", "queue-deleted"]
