"""Receivers that were notified that an alert fires are notified of its end, whatever happens in between."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from console.alerts.models import Silence
from console.alerts.transitions import GROUP_WAIT
from tests.console.alerts.test_transitions import BILLS, ORDERS, T0, World, observed


def silence(world: World, until: float) -> None:
    world.silences = [Silence(rule_id=1, until=T0 + dt.timedelta(seconds=until))]


def test_end_in_a_silence_is_notified_after_it_though_the_alert_fired_again_meanwhile() -> None:
    world = World(holds=0)
    assert world.notified(observed(), at=0) == {"firing": 1}
    silence(world, 100)
    assert world.notified(at=20) == {}
    assert world.notified(observed(), at=40) == {}
    assert world.notified(at=60) == {}
    assert world.notified(at=101) == {"resolved": 1}
    assert world.notified(at=200) == {}


def test_end_within_the_group_wait_is_notified_though_the_alert_fired_again_meanwhile() -> None:
    world = World(holds=0, quiet=3600)
    assert world.notified(observed(), at=0) == {"firing": 1}
    assert world.notified(at=3) == {}
    assert world.notified(observed(), at=6) == {}
    assert world.notified(at=8) == {}
    assert world.notified(at=GROUP_WAIT) == {"resolved": 1}


def test_end_is_notified_though_the_alert_was_pending_again_meanwhile() -> None:
    world = World(holds=5)
    world.notified(observed(), at=0)
    assert world.notified(observed(), at=5) == {"firing": 1}
    assert world.notified(at=7) == {}
    assert world.notified(observed(), at=9) == {}
    assert world.notified(at=12) == {}
    assert world.notified(at=16) == {"resolved": 1}


def test_incident_is_not_resolved_while_a_notified_alert_is_pending_again() -> None:
    world = World(holds=30, quiet=600)
    world.evaluate(observed(), observed(name=BILLS), at=0)
    assert world.notified(observed(), observed(name=BILLS), at=30) == {"firing": 2}
    world.evaluate(observed(), at=32)  # within the group wait
    world.evaluate(observed(), observed(name=BILLS), at=34)
    ended = world.evaluate(observed(name=BILLS), at=50)
    assert [alert.object for alert in ended.notify["resolved"]] == [ORDERS]
    assert ended.still_firing == 1


STEPS = st.lists(
    st.tuples(
        st.integers(1, 40),  # seconds since the step before
        st.sets(st.sampled_from([ORDERS, BILLS])),  # objects whose condition is active
        st.one_of(st.none(), st.none(), st.integers(1, 120)),  # seconds of a new silence
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from([0, 20]), st.sampled_from([0, 300]))
def test_end_of_each_notified_firing_is_notified(
    steps: list[tuple[int, set[str], int | None]], holds: int, quiet: int
) -> None:
    world, at, believed = World(holds=holds, quiet=quiet), 0, set[str]()

    def look(active: set[str]) -> None:
        evaluation = world.evaluate(*(observed(name=name) for name in sorted(active)), at=at)
        firing = {alert.object for alert in evaluation.notify.get("firing", ())}
        ended = {alert.object for alert in evaluation.notify.get("resolved", ())}
        assert ended <= believed, "the end of an alert whose firing was not notified"
        assert firing <= active, "an alert whose condition is not active"
        believed.difference_update(ended)
        believed.update(firing)
        assert evaluation.still_firing == len(believed)

    for seconds, active, silenced in steps:
        at += seconds
        if silenced is not None:
            silence(world, at + silenced)
        look(active)
    for _ in range(4):
        at += 200
        look(set())
    assert not believed
