"""Two web processes, two workers and two beats on one PostgreSQL and one Redis: for users they are one console."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import pytest

from tests.history.processes import ROOT, environment, kill, manage, running
from tests.servers.person import Person
from tests.up.running import free_port, wait_until

pytestmark = pytest.mark.timeout(300)

QUEUES = 60


@dataclass
class Place:
    webs: list[str]
    password: str
    logs: Path
    processes: dict[str, Popen[bytes]] = field(default_factory=dict)

    def log(self, name: str) -> str:
        return (self.logs / name).read_text()

    def person(self) -> Person:
        one = Person(self.webs[0])
        one.sign_in("admin", self.password)
        assert one.get("brokers/")
        return one


@pytest.fixture(scope="module")
def place(database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("two")
    port = str(free_port())
    more = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADGATE_BROKER_PORT": port}
    env = environment(folder / "data", **more)
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Popen[bytes]:
            command = [sys.executable, str(ROOT / "manage.py"), *arguments]
            return stack.enter_context(running(*command, env=env, log=folder / name))

        for command in (["migrate"], ["ensure_admin"]):
            done = manage(*command, env=env)
            assert done.returncode == 0, done.stdout + done.stderr
        password = done.stdout.split()[-1]
        start("broker", "broker", "--port", port, "--data", str(folder / "data" / "broker"), "--demo")
        place = Place([], password, folder)
        for number in (1, 2):
            for kind in ("worker", "beat"):
                place.processes[f"{kind}{number}"] = start(f"{kind}{number}", kind)
            place.processes[f"web{number}"] = start(f"web{number}", "web", "--port", "0")
        for number in (1, 2):
            wait_until(lambda n=number: "console on" in place.log(f"web{n}"), "the web process listens", 60)  # type: ignore[misc]
            found = re.search(r"console on (http://[\d.:]+)", place.log(f"web{number}"))
            assert found
            place.webs.append(found[1])
        one = place.person()
        for web in place.webs:
            one.at(web)
            wait_until(lambda: one.get("brokers/")[0]["connected"], "it is connected to the broker", 60)
        yield place


def test_sign_in_and_sign_out_apply_to_both_processes(place: Place) -> None:
    one = place.person()
    assert "Sign in" not in one.at(place.webs[1]).text("/audit/")
    stranger = Person(place.webs[1])
    assert stranger.status("/api/v1/brokers/") in (401, 403)


def test_failed_attempts_to_sign_in_count_together(place: Place) -> None:
    person = Person(place.webs[0])
    answers = [person.at(place.webs[n % 2]).sign_in("olga", "wrong") for n in range(6)]
    assert answers[:4] == [200] * 4
    assert answers[5] == 429
    assert person.at(place.webs[0]).sign_in("olga", "wrong") == 429


def test_stop_in_one_process_is_shown_live_by_the_other(place: Place) -> None:
    one, other = place.person(), place.person().at(place.webs[1])
    with other.live() as socket:
        socket.send(json.dumps({"watch": "overview"}))
        wait_until(lambda: json.loads(socket.recv(30))["type"] == "snapshot", "the page gets the snapshot")
        one.post("stop-producers/", scope="type=Broker", reason="incident 7")

        def updated() -> bool:
            frame = json.loads(socket.recv(30))
            kinds = [event["kind"] for event in frame.get("events", [])]
            return frame["type"] == "events" and "producers-stopped" in kinds

        wait_until(updated, "the other process sends the change")
    one.post("start-producers/", scope="type=Broker", reason="it is over")
    reasons = [row["reason"] for row in other.get("audit/")["results"]]
    assert reasons[:2] == ["it is over", "incident 7"]


def test_bulk_edit_survives_the_death_of_a_worker_and_both_processes_show_it(place: Place) -> None:
    one = place.person()
    for number in range(QUEUES):
        name = f"type=Queue,virtualhost=default,name=bulk.{number:03}"
        one.post("brokers/local/objects/", object=name, attributes={"capacity_messages": 10}, reason="for a test")
    one.at(place.webs[1])
    wait_until(lambda: one.get("queues/?search=bulk.&page_size=1")["count"] == QUEUES, "the other sees the queues")
    job = one.at(place.webs[0]).post(
        "policies/bulk/", selection={"search": "bulk."}, attributes={"capacity_messages": 20}, reason="more"
    )
    kill(place.processes["worker1"])
    one.at(place.webs[1])
    wait_until(lambda: one.get(f"policies/bulk/{job['id']}/")["state"] == "done", "it is done", 120)
    done = one.get(f"policies/bulk/{job['id']}/")
    assert done["total"] == QUEUES
    assert {name: count for name, count in done["counts"].items() if count} == {"done": QUEUES}
    changed = one.get("queues/?search=bulk.&page_size=100")["results"]
    assert {row["effective_capacity_messages"] for row in changed} == {20}


def test_one_beat_works_and_the_other_takes_over(place: Place) -> None:
    def at_work() -> list[str]:
        return [name for name in ("beat1", "beat2") if "at work" in place.log(name).replace("is at work", "")]

    wait_until(at_work, "one is at work", 60)
    first, *both = at_work()
    assert not both, {name: place.log(name) for name in ("beat1", "beat2")}
    (second,) = {"beat1", "beat2"} - {first}
    wait_until(lambda: "standing by" in place.log(second), "the other stands by", 60)
    kill(place.processes[first])
    wait_until(lambda: second in at_work(), "it takes over", 60)
