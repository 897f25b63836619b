"""Stops and starts of several brokers of different kinds in one call: what each result says is what the broker has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from brokers.admin import InvalidValue
from brokers.model import object_name
from console.audit.models import AuditEntry
from console.links.registry import close_links, link, links
from console.operations import stops, stops_across
from console.permissions.rights import Grant, Role
from tests.adapters.fake import queue_name
from tests.console.access.conftest import person
from tests.console.adapted import Adapted
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

ALL = {"scope": "type=Broker", "brokers": ["*"]}
REASON = "incident 7"


class Fleet:
    """Brokers of several kinds: `local`, Headgate's own, and the `others` by slug."""

    def __init__(self, own: Broker, folder: Path, settings: Any) -> None:
        self.own = own
        self._settings = settings
        self._folder = folder
        self.others: dict[str, Adapted] = {}

    def add(self, slug: str, effect: str = "reject", *, tags: tuple[str, ...] = ()) -> Adapted:
        made = Adapted(slug, self._folder, effect=effect)
        made.entry["tags"] = list(tags)
        for name, limit in (("orders", 10), ("stock.eu", 20)):
            made.memory.add(name, limit)
        self.others[slug] = made
        return made

    def connect(self) -> None:
        close_links()
        self._settings.HEADGATE_BROKERS = [
            *self._settings.HEADGATE_BROKERS,
            *(other.entry for other in self.others.values()),
        ]
        until(lambda: all(each.connected for each in links()))
        self.own.do(lambda memory: memory.attach_producer("orders"))
        until(lambda: all(each.queue_count for each in links()))

    def of(self, answer: Any) -> dict[str, Any]:
        return {entry["broker"]: entry for entry in answer["brokers"]}

    def own_is_stopped(self) -> bool:
        name = object_name("Queue", virtualhost="default", name="orders")
        return bool(self.own.do(lambda memory: memory.management.read(name)["state"] == "STOPPED"))

    def stopped(self) -> set[str]:
        """Slugs of the brokers that are stopped, by their own state."""
        found = {slug for slug, other in self.others.items() if other.stopped()}
        return found | ({"local"} if self.own_is_stopped() else set())


@pytest.fixture
def fleet(broker: Broker, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(stops_across, "STOP_SECONDS", 1.0)
    monkeypatch.setattr(stops_across, "READ_SECONDS", 1.0)
    made = Fleet(broker, tmp_path / "adapted", settings)
    yield made
    for other in made.others.values():
        other.close()
    close_links()


def post(client: APIClient, path: str, **body: Any) -> Any:
    return client.post(f"/api/v1/{path}", body, format="json")


def stop(client: APIClient, *effects: str, **body: Any) -> Any:
    return post(client, "stop-producers/", **{**ALL, "reason": REASON, "effects": list(effects), **body})


def start(client: APIClient, **body: Any) -> Any:
    return post(client, "start-producers/", **{**ALL, "reason": REASON, **body})


def test_brokers_with_different_effects_are_stopped_and_started_in_one_call(
    fleet: Fleet, as_operator: APIClient
) -> None:
    rabbit, mule = fleet.add("rabbit"), fleet.add("mule", "trickle")
    fleet.connect()
    answer = stop(as_operator, "reject", "trickle")
    assert answer.status_code == 200, answer.content
    found = fleet.of(answer.json())
    assert {slug: entry["outcome"] for slug, entry in found.items()} == dict.fromkeys(found, "done")
    assert answer.json()["queues"] == 5
    assert fleet.stopped() == {"local", "rabbit", "mule"}
    assert {row.broker: row.outcome for row in AuditEntry.objects.all()} == dict.fromkeys(found, "done")
    assert start(as_operator, only=True).status_code == 200
    assert fleet.stopped() == set()
    assert rabbit.limits() == mule.limits() == {"orders": 10, "stock.eu": 20}


def test_an_effect_that_is_not_named_changes_nothing_anywhere(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.add("mule", "trickle")
    fleet.connect()
    for effects in ((), ("trickle",), ("cut", "hold")):
        answer = stop(as_operator, *effects)
        assert answer.status_code == 409
        missing = {"reject", "trickle"} - set(effects)
        assert {each["effect"] for each in answer.json()["brokers"]} == missing
        assert all(each["sentence"] == "Publishers are refused." for each in answer.json()["brokers"])
        assert answer.json()["effect"] == "reject"
        assert "Rabbit: Publishers are refused." in answer.json()["detail"] or missing == {"reject"}
        assert fleet.stopped() == set()
    assert set(AuditEntry.objects.values_list("broker", "outcome")) == {("rabbit", "refused"), ("mule", "refused")}


def test_one_effect_confirms_the_only_broker_that_has_it(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.connect()
    assert stop(as_operator, effect="reject").status_code == 200
    assert fleet.stopped() == {"local", "rabbit"}


def test_a_single_broker_takes_effects_as_well(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.connect()
    body = {"scope": "type=Broker", "reason": REASON}
    refused = post(as_operator, "stop-producers/?broker=rabbit", **body, effects=["trickle"])
    assert (refused.status_code, refused.json()["effect"]) == (409, "reject")
    assert post(as_operator, "stop-producers/?broker=rabbit", **body, effects=["reject"]).status_code == 200
    assert fleet.stopped() == {"rabbit"}


def test_preview_says_of_each_broker_what_a_stop_does_there(fleet: Fleet, as_operator: APIClient) -> None:
    rabbit, mule = fleet.add("rabbit"), fleet.add("mule", "trickle")
    rabbit.adapter.unstoppable = frozenset({"stock.eu"})
    fleet.connect()
    mule.lose()
    until(lambda: not link("mule").connected)
    answer = post(as_operator, "stop-producers/preview/", **ALL).json()
    found = fleet.of(answer)
    assert (found["local"]["effect"], found["local"]["unstoppable"], found["local"]["producers"]) == ("hold", 0, 1)
    assert (found["rabbit"]["effect"], found["rabbit"]["remark"]) == ("reject", "Publishers are refused.")
    assert (found["rabbit"]["queues"], found["rabbit"]["unstoppable"], found["rabbit"]["producers"]) == (2, 1, None)
    assert "rate" not in found["rabbit"]["arguments"]
    assert "no route to the host" in found["mule"]["error"] or "lost" in found["mule"]["error"]
    assert found["mule"]["connected"] is False
    assert (answer["queues"], answer["producers"], answer["at_least"]) == (3, 1, ["producers"])


def test_queues_that_cannot_be_stopped_are_counted_and_not_said_to_be_stopped(
    fleet: Fleet, as_operator: APIClient
) -> None:
    rabbit = fleet.add("rabbit")
    rabbit.adapter.unstoppable = frozenset({"stock.eu"})
    fleet.connect()
    entry = fleet.of(stop(as_operator, "reject").json())["rabbit"]
    assert (entry["queues"], entry["unstoppable"]) == (1, 1)
    assert rabbit.stopped() == {"orders"}
    one = post(as_operator, "stop-producers/preview/?broker=rabbit", scope=str(queue_name("stock.eu"))).json()
    assert one["cannot"] == "queue stock.eu cannot be stopped: it is a stream"


def test_a_hung_broker_delays_no_other_and_its_outcome_is_unknown(fleet: Fleet, as_operator: APIClient) -> None:
    rabbit, _ = fleet.add("rabbit"), fleet.add("mule", "trickle")
    fleet.connect()
    rabbit.hung = True
    found = fleet.of(stop(as_operator, "reject", "trickle").json())
    assert {slug: entry["outcome"] for slug, entry in found.items()} == {
        "local": "done",
        "rabbit": "unknown",
        "mule": "done",
    }
    assert "did not answer within 1 s" in found["rabbit"]["error"]
    assert AuditEntry.objects.get(broker="rabbit").outcome == "unknown"
    assert fleet.stopped() == {"local", "mule"}


def test_all_brokers_are_called_at_the_same_time(
    fleet: Fleet, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each waits until the others have been called, too: one after the other they would never answer.
    for number in range(5):
        fleet.add(f"rabbit-{number}")
    fleet.connect()
    monkeypatch.setattr(stops_across, "STOP_SECONDS", 30.0)
    called: set[str] = set()
    waiting: list[Any] = []
    for slug, other in fleet.others.items():
        monkeypatch.setattr(other.adapter, "stop", _meeting(other.adapter.stop, slug, called, waiting))
    answer = stop(as_operator, "reject").json()
    assert {entry["outcome"] for entry in answer["brokers"]} == {"done"}
    assert len(called) == 5


def _meeting(then: Callable[..., Any], slug: str, called: set[str], waiting: list[Any]) -> Callable[..., Any]:
    import asyncio

    async def stop(targets: Any, **more: Any) -> Any:
        called.add(slug)
        met = asyncio.Event()
        waiting.append(met)
        if len(called) == 5:
            for each in waiting:
                each.set()
        await met.wait()
        return await then(targets, **more)

    return stop


def test_an_unreachable_broker_fails_and_the_others_are_stopped(fleet: Fleet, as_operator: APIClient) -> None:
    rabbit = fleet.add("rabbit")
    fleet.connect()
    rabbit.lose()
    until(lambda: not link("rabbit").connected)
    found = fleet.of(stop(as_operator).json())  # no effect to confirm: nothing is done there
    assert (found["rabbit"]["outcome"], found["local"]["outcome"]) == ("failed", "done")
    assert fleet.stopped() == {"local"}
    rabbit.come_back()
    until(lambda: link("rabbit").connected)
    retried = fleet.of(stop(as_operator, "reject", brokers=["rabbit"]).json())
    assert retried["rabbit"]["outcome"] == "done"
    assert fleet.stopped() == {"local", "rabbit"}


def test_an_end_that_has_passed_by_the_clock_of_one_broker_fails_there_only(
    fleet: Fleet, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.add("rabbit")
    fleet.connect()
    passed = {"rabbit"}

    def remaining(broker: Any, _until: int) -> int:
        if broker.slug in passed:
            raise InvalidValue({"until": "until is in the past"})
        return 60_000

    monkeypatch.setattr(stops_across, "remaining_ms", remaining)
    found = fleet.of(stop(as_operator, "reject", until=4_000_000_000_000).json())
    assert (found["rabbit"]["outcome"], found["local"]["outcome"]) == ("refused", "done")
    assert "until is in the past" in found["rabbit"]["error"]
    assert fleet.stopped() == {"local"}
    passed.add("local")
    assert stop(as_operator, "reject", until=4_000_000_000_000).status_code == 400


def test_a_broker_that_refuses_says_why(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit").adapter.denied = True
    fleet.connect()
    found = fleet.of(stop(as_operator, "reject").json())
    assert found["rabbit"]["outcome"] == "refused"
    assert found["rabbit"]["error"] == "user headgate needs the tag policymaker"
    alone = stop(as_operator, "reject", brokers=["rabbit"])
    assert (alone.status_code, alone.json()["brokers"][0]["outcome"]) == (400, "refused")
    assert alone.json()["detail"] == "user headgate needs the tag policymaker"
    assert fleet.stopped() == {"local"}


def test_arguments_that_a_kind_lacks_are_refused_there_only(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.connect()
    stop(as_operator, "reject")
    found = fleet.of(start(as_operator, rate=50).json())
    assert found["rabbit"]["error"] == "this broker has no staged start: start all producers at once"
    assert (found["rabbit"]["outcome"], found["local"]["outcome"]) == ("refused", "done")
    assert "rabbit" in fleet.stopped()


def test_staged_start_is_refused_with_a_sentence_for_each_broker_that_lacks_it(
    fleet: Fleet, as_operator: APIClient
) -> None:
    fleet.add("rabbit")
    fleet.add("mule", "trickle")
    fleet.connect()
    sentence = "this broker has no staged start: start all producers at once"
    assert stop(as_operator, "reject", "trickle").status_code == 200
    for stage in ({"rate": 50}, {"rate": 50, "step_ms": 5_000, "halt": 80}):
        answer = start(as_operator, **stage, brokers=["rabbit", "mule"])
        assert answer.status_code == 400
        assert {each["broker"]: each["error"] for each in answer.json()["brokers"]} == {
            "rabbit": sentence,
            "mule": sentence,
        }
        assert answer.json()["detail"].count(sentence) == 2
        single = post(as_operator, "start-producers/?broker=rabbit", scope="type=Broker", reason=REASON, **stage)
        assert (single.status_code, single.json()) == (400, {name: [sentence] for name in stage})
        assert fleet.stopped() == {"local", "rabbit", "mule"}
    answer = start(as_operator, rate=50, halt=80)
    assert answer.status_code == 200  # where it can be done
    found = fleet.of(answer.json())
    assert {slug: entry["outcome"] for slug, entry in found.items()} == {
        "local": "done",
        "rabbit": "refused",
        "mule": "refused",
    }
    assert [found[slug]["error"] for slug in ("rabbit", "mule")] == [sentence] * 2
    assert fleet.stopped() >= {"rabbit", "mule"}
    preview = post(as_operator, "stop-producers/preview/", **ALL, action="start")
    lacking = {e["broker"] for e in preview.json()["brokers"] if "rate" not in e["arguments"]}
    assert lacking == {"rabbit", "mule"}  # which the dialog names


def test_permissions_are_those_of_each_broker(fleet: Fleet, db: None) -> None:
    fleet.add("rabbit")
    fleet.add("mule", "hold")
    fleet.connect()
    client = signed_in(person("rita", Grant(Role.VIEWER, "local"), Grant(Role.OPERATOR, "rabbit")))
    preview = fleet.of(post(client, "stop-producers/preview/", **ALL).json())
    assert set(preview) == {"local", "rabbit"}  # and not what she does not see
    assert preview["local"]["cannot"] == "that needs the role of operator for broker local"
    found = fleet.of(stop(client, "reject").json())
    assert {slug: entry["outcome"] for slug, entry in found.items()} == {"local": "refused", "rabbit": "done"}
    assert fleet.stopped() == {"rabbit"}
    assert dict(AuditEntry.objects.values_list("broker", "outcome")) == {"local": "refused", "rabbit": "done"}
    assert stop(client, brokers=["local"]).status_code == 403
    assert stop(client, brokers=["mule"]).status_code == 404


def test_brokers_are_selected_by_tags(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit", tags=("prod", "eu"))
    fleet.add("mule", "trickle", tags=("test",))
    fleet.connect()
    body = {"scope": "type=Broker", "tags": ["prod"]}
    assert [each["broker"] for each in post(as_operator, "stop-producers/preview/", **body).json()["brokers"]] == [
        "rabbit"
    ]
    assert post(as_operator, "stop-producers/", **body, reason="x", effects=["reject"]).status_code == 200
    assert fleet.stopped() == {"rabbit"}
    for wrong in ({"tags": ["prodd"]}, {"tags": []}, {"tags": ["prod"], "brokers": ["*"]}):
        answer = post(as_operator, "stop-producers/", **{"scope": "type=Broker", **wrong}, reason="x")
        assert (answer.status_code, list(answer.json())) == (400, ["tags"])


def test_undo_needs_what_was_in_force_before(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.connect()
    post(as_operator, "stop-producers/?broker=rabbit", scope="type=Broker", reason="earlier", effect="reject")
    found = fleet.of(stop(as_operator, "reject", for_ms=60_000).json())
    assert found["local"]["earlier"] is None
    made = found["local"]["made"]
    assert (made["until"] - made["since"], made["below"], found["rabbit"]["made"]) == (60_000, 0, None)
    earlier = found["rabbit"]["earlier"]
    assert found["rabbit"]["changed"]
    assert {name: earlier[name] for name in ("until", "below", "replaced")} == {
        "until": None,
        "below": 0,
        "replaced": False,
    }
    assert (earlier["since"] > 0, earlier["after"]["until"] > 0) == (True, True)
    again = fleet.of(stop(as_operator, "reject", brokers=["rabbit"]).json())["rabbit"]["earlier"]
    assert (again["until"], again["since"]) == (earlier["after"]["until"], earlier["since"])
    assert again["after"] == {"until": None, "below": 0}


def test_progress_says_which_stop_is_in_force(fleet: Fleet, as_operator: APIClient) -> None:
    rabbit = fleet.add("rabbit")
    fleet.connect()
    rabbit.hung = rabbit.carries_out = True
    entry = fleet.of(stop(as_operator, "reject").json())["rabbit"]
    assert (entry["outcome"], entry["earlier"]) == ("unknown", None)  # so a stop that it shows later is of this call

    def seen() -> Any:
        return fleet.of(post(as_operator, "stop-producers/progress/", **ALL).json())["rabbit"]["stop"]

    until(lambda: (seen() or {}).get("reason") == REASON)
    assert rabbit.stopped() == {"orders", "stock.eu"}


def test_a_missing_reason_is_refused_before_anything_is_done(fleet: Fleet, as_operator: APIClient) -> None:
    fleet.add("rabbit")
    fleet.connect()
    answer = stop(as_operator, "reject", reason=" ")
    assert (answer.status_code, list(answer.json())) == (400, ["reason"])
    assert fleet.stopped() == set()


def test_the_time_for_a_stop_is_longer_than_for_other_requests() -> None:
    # A broker whose queues report whether they reject every 5 s takes up to half a minute.
    assert stops.STOP_SECONDS > 30


FAULTS = ("", "", "lost", "denied", "hung", "hung, but carried out", "fails halfway", "cannot stop one")


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_the_results_are_true_and_undo_restores_every_limit(
    fleet: Fleet, as_operator: APIClient, seed: int
) -> None:
    dice = random.Random(seed)
    for number in range(4):
        fleet.add(f"rabbit-{number}", dice.choice(["reject", "trickle", "hold"]))
    fleet.connect()
    before = {slug: other.limits() for slug, other in fleet.others.items()}
    faults = {slug: dice.choice(FAULTS) for slug in fleet.others}
    for slug, other in fleet.others.items():
        other.adapter.denied = faults[slug] == "denied"
        other.hung = faults[slug].startswith("hung")
        other.carries_out = faults[slug] == "hung, but carried out"
        if faults[slug] == "fails halfway":
            other.memory.fails_after = 1
        elif faults[slug] == "cannot stop one":
            other.adapter.unstoppable = frozenset({"orders"})
        elif faults[slug] == "lost":
            other.lose()
            until(lambda slug=slug: not link(slug).connected)
    found = fleet.of(stop(as_operator, "reject", "trickle").json())

    for other in fleet.others.values():  # what failed is over
        other.memory.fails_after, other.hung, other.adapter.denied = None, False, False
        other.come_back()
    until(lambda: all(each.connected for each in links()))
    done = set()
    for slug, other in fleet.others.items():
        outcome = found[slug]["outcome"]
        settled = partial(_is_settled, other)
        until(settled)
        if outcome == "done":
            assert other.stopped() == set(other.limits()) - other.adapter.unstoppable, faults
            assert found[slug]["queues"] == len(other.stopped()), faults
            done.add(slug)
        elif outcome in ("refused", "failed"):
            assert other.limits() == before[slug], faults
        else:
            assert outcome == "unknown", faults
            assert other.stopped() in (set(), set(other.limits())), faults
            done |= {slug} if other.stopped() else set()
    assert found["local"]["outcome"] == "done"
    assert fleet.own_is_stopped()

    undone = start(as_operator, only=True, brokers=["local", *sorted(done)])
    assert {entry["outcome"] for entry in undone.json()["brokers"]} == {"done"}
    assert {slug: other.limits() for slug, other in fleet.others.items()} == before, faults
    assert not fleet.own_is_stopped()


def _is_settled(other: Adapted) -> bool:
    """Whether the broker has what the record of its stops says."""
    stops = other.do(other.stops)
    return bool(other.stopped()) == bool(stops)
