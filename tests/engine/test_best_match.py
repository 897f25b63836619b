"""The index of destination policies against a naive model: best match, affected names, and the cost of a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from brokers.engine.values.policy import Policies, Policy
from brokers.model.patterns import matches

words = st.sampled_from(["a", "b", "a-", "*"])  # "a-" sorts before "a.": neighbours of a prefix
names = st.lists(st.sampled_from(["a", "b", "a-", "a/"]), min_size=1, max_size=4).map(".".join)
patterns = st.one_of(
    st.sampled_from([">", "#", "a.>", "a.#", "a.*", "*.a"]),
    st.tuples(st.lists(words, min_size=1, max_size=4), st.sampled_from(["", ".>", ".#"])).map(
        lambda p: ".".join(p[0]) + p[1]
    ),
)


def naive_rank(policy: Policy) -> tuple[object, ...]:
    """Section 5 of DOMAIN.md, and the tie-breakers beyond it."""
    parts = policy.pattern.split(".")
    wild = [word in ("*", ">", "#") for word in parts]
    literal_prefix = wild.index(True) if any(wild) else len(parts)
    is_open = parts[-1] in (">", "#")
    return (literal_prefix, -sum(wild), policy.priority, 0 if is_open else 1, policy.pattern)


def naive_best(policies: list[Policy], name: str) -> Policy | None:
    found = [p for p in policies if matches(p.pattern, name)]
    return max(found, key=naive_rank) if found else None


@pytest.mark.parametrize(
    ("better", "worse", "name"),
    [
        ("orders.eu", "orders.*", "orders.eu"),
        ("orders.eu", "orders.eu.>", "orders.eu"),
        ("orders.eu.>", "orders.*.*", "orders.eu.de"),
        ("orders.*.de", "orders.*.*", "orders.eu.de"),
        ("orders.>", "*.eu", "orders.eu"),
        ("*.eu", ">", "orders.eu"),
        ("orders.*", "orders.>", "orders.eu"),
    ],
)
def test_longer_literal_prefix_wins_then_fewer_wildcards(better, worse, name):
    for first, second in ((better, worse), (worse, better)):
        policies = Policies()
        for pattern in (first, second):
            policy = Policy("default", pattern, {}, priority=0)
            policies.put(pattern, policy, policies.changes(pattern, policy))
        best = policies.best(name)
        assert best is not None
        assert best.pattern == better


def test_priority_decides_only_between_patterns_that_match_equally_well():
    policies = Policies()
    for pattern, priority in (("orders.>", 1), ("orders.*", 0), (">", 9)):
        policy = Policy("default", pattern, {}, priority)
        policies.put(pattern, policy, policies.changes(pattern, policy))
    best = policies.best("orders.eu")
    assert best is not None
    assert best.pattern == "orders.>"


class Index(RuleBasedStateMachine):
    """Add and remove names and policies; after each step the index agrees with a full search."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Policies()
        self.policies: dict[str, Policy] = {}
        self.names: set[str] = set()

    @rule(name=names)
    def a_queue_comes(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            self.index.add(name)

    @rule(pick=st.integers(0, 99))
    def a_queue_goes(self, pick: int) -> None:
        if self.names:
            name = sorted(self.names)[pick % len(self.names)]
            self.names.discard(name)
            self.index.drop(name)

    def expect(self) -> dict[str, Policy | None]:
        return {name: naive_best(list(self.policies.values()), name) for name in self.names}

    def change(self, pattern: str, policy: Policy | None) -> None:
        before = self.expect()
        if policy is None:
            self.policies.pop(pattern, None)
        else:
            self.policies[pattern] = policy
        after = self.expect()
        changes = self.index.changes(pattern, policy)
        assert {n: self.index.of(n) for n in self.names} == before, "computing the changes altered the index"
        assert changes == {n: best for n, best in after.items() if best is not before[n]}
        self.index.put(pattern, policy, changes)

    @rule(pattern=patterns, priority=st.integers(0, 3))
    def put_a_policy(self, pattern: str, priority: int) -> None:
        self.change(pattern, Policy("default", pattern, {"capacity_messages": 1}, priority))

    @rule(pick=st.integers(0, 99))
    def remove_a_policy(self, pick: int) -> None:
        if self.policies:
            self.change(sorted(self.policies)[pick % len(self.policies)], None)

    @invariant()
    def it_says_what_looking_at_everything_says(self) -> None:
        expected = self.expect()
        for name, best in expected.items():
            assert self.index.of(name) is best
            assert self.index.best(name) is best
        for pattern, policy in self.policies.items():
            mine = {name for name, best in expected.items() if best is policy}
            assert self.index.matched(pattern) == mine
            assert self.index.count(pattern) == len(mine)

    def teardown(self) -> None:
        """Removed names and policies leave nothing behind."""
        for pattern in list(self.policies):
            self.change(pattern, None)
        assert not self.index._root.next
        assert not self.index._matched
        assert not self.index._best


TestIndex = Index.TestCase


@given(st.lists(patterns, unique=True, max_size=12), names)
def test_name_without_a_queue_has_a_best_match(texts, name):
    index = Policies()
    policies = [Policy("default", text, {}, priority=n) for n, text in enumerate(texts)]
    for policy in policies:
        index.put(policy.pattern, policy, index.changes(policy.pattern, policy))
    assert index.best(name) is naive_best(policies, name)
