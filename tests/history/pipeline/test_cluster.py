"""The pipeline on a Spark cluster of a master and two workers produces the tables of local mode: with two drivers at
once, with workers that are killed during a run, and with a driver that is killed during its run."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from console.history.models import HistoryRun
from console.history.pipeline.pieces import Piece
from console.history.pipeline.run import Run
from console.history.pipeline.session_process import Died, Message, SessionProcess
from console.history.pipeline.spark.java import find_java
from console.history.storage.tables import Tables
from console.history.whatif.fleet_recommendations import write_recommendations
from console.history.whatif.recommend import ADVICE
from tests.history.delta import read
from tests.history.processes import ROOT, contents, environment, kill, manage, running
from tests.history.rows import Story, land
from tests.up.running import free_port, wait_until

pytestmark = pytest.mark.timeout(1800)

#: Limit of everything that is awaited, s. A run takes a minute on a machine that does nothing else.
WITHIN = 900.0
SESSION = (str(ROOT / "manage.py"), "history", "--session")
Rows = Mapping[str, list[tuple[Any, ...]]]


@dataclass
class Cluster:
    """`folder`: for its files; `env`: of its drivers, which share a database; `local`: the tables that a run in local
    mode makes of `landed`, and the recommendations."""

    folder: Path
    env: dict[str, str]
    start_worker: Callable[[], None]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    local: Rows = field(default_factory=dict)
    recommended: list[dict[str, Any]] = field(default_factory=list)

    def driver(self, url: Path, *command: str, **more: str) -> SessionProcess:
        """Start a process with a Spark session for the history at `url`."""
        env = self.env | {"HEADGATE_HISTORY_URL": str(url)} | more
        given = [f"{name}={value}" for name, value in env.items()]
        return SessionProcess(["/usr/bin/env", "-i", *given, sys.executable, *(command or SESSION)])

    def executors(self) -> int:
        """Return the number of executors that were started so far."""
        return len(list(self.folder.glob("worker-*/app-*/*")))

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "data/console/console.sqlite3", timeout=30)) as database, database:
            return database.execute(statement).fetchall()

    def steps(self) -> dict[str, str]:
        """Return the current step of each broker's run."""
        return dict(self.ask("SELECT broker, step FROM history_historyrun WHERE finished IS NULL ORDER BY id"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    defaults = (
        "spark.executor.memory 512m\nspark.driver.bindAddress 127.0.0.1\nspark.driver.host 127.0.0.1\n"
        "spark.sql.shuffle.partitions 2\nspark.executor.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1\n"
        # By default a task waits for the executor that has its rows, and for one that was killed to come back.
        "spark.locality.wait 0s\nspark.shuffle.io.retryWait 100ms\n"
    )
    for name, more in {"whole": "", "half": "spark.cores.max 1\n"}.items():
        (folder / name).mkdir()
        (folder / name / "spark-defaults.conf").write_text(defaults + more)
    port, status = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    env = environment(
        folder / "data",
        JAVA_HOME=str(find_java().home),
        SPARK_HOME=str(home),
        SPARK_CONF_DIR=str(folder / "whole"),
        SPARK_NO_DAEMONIZE="1",
        SPARK_DAEMON_MEMORY="256m",
        HEADGATE_SPARK_MASTER=master,
    )
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    start = str(home / "bin" / "spark-class")
    where = ["--host", "127.0.0.1"]
    with ExitStack() as stack:

        def run(*command: str) -> subprocess.Popen[bytes]:
            log = folder / "cluster.log"
            return stack.enter_context(
                running(start, f"org.apache.spark.deploy.{command[0]}", *command[1:], env=env, log=log)
            )

        numbers = itertools.count()

        def start_worker() -> None:
            memory = ["--cores", "1", "--memory", "700m", "--work-dir", f"{folder}/worker-{next(numbers)}"]
            found.workers.append(run("worker.Worker", *where, *memory, "--webui-port", "0", master))
            wait_until(lambda: alive(status) == len(found.workers), "the worker is there", WITHIN)

        run("master.Master", *where, "--port", str(port), "--webui-port", str(status))
        found = Cluster(folder, env, start_worker)
        start_worker()
        start_worker()
        land(str(folder / "landed"), story().rows)
        land(str(folder / "landed"), other().rows)
        shutil.copytree(folder / "landed", folder / "local")
        assert spark.sparkContext.master.startswith("local")
        local = Tables(spark, str(folder / "local"))
        Run(local).run()
        write_recommendations(local)
        found.local, found.recommended = contents(str(folder / "local")), recommendations(folder / "local")
        assert len(found.local["episodes"]) == 17
        assert len(found.local["minutes"]) > 400
        yield found


def alive(status: int) -> int:
    """Return the number of workers of the master with this status page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{status}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # it does not listen or respond yet
        return 0


def story() -> Story:
    story = Story().watch(0, 9000)
    for second in range(0, 7200, 30):
        for queue in ("orders", "images"):
            story.sample(second, second % 97, queue, enqueued_messages=second * 3, dequeued_messages=second * 2)
    for minute in range(0, 100, 7):
        story.overfull(minute * 60 + 5, "orders").blocked(minute * 60 + 5, queue="orders")
        story.underfull(minute * 60 + 50, "orders").released(minute * 60 + 50, queue="orders")
    return story.overfull(7000, "images")


def other() -> Story:
    """Return rows of another broker with a queue of the same name."""
    story = Story("c").watch(0, 3600)
    for second in range(0, 3600, 20):
        story.sample(second, second % 89, "orders", enqueued_messages=second * 5, dequeued_messages=second * 4)
    return story.overfull(100, "orders").blocked(100, queue="orders").underfull(400, "orders").released(400)


def recommendations(url: Path) -> list[dict[str, Any]]:
    table = read(str(url), "recommendations").sort_by([("broker", "ascending"), ("queue", "ascending")])
    return list(table.select(["broker", "queue", *ADVICE.names]).to_pylist())


@contextmanager
def ending(*drivers: SessionProcess) -> Iterator[None]:
    try:
        yield
    finally:
        for driver in drivers:
            driver.end()


def result(driver: SessionProcess) -> Message:
    """Wait for the result of the driver's piece. Raises Died."""
    found: list[Message] = []

    def is_there() -> bool:
        if (message := driver.result(1.0)) is not None:
            found.append(message)
        return bool(found)

    wait_until(is_there, "the driver has finished its piece", WITHIN)
    return found[0]


def wait_for_step(driver: SessionProcess, step: str, cluster: Cluster) -> None:
    """Wait until the run of the only driver is at that step. It does not end before."""

    def is_there() -> bool:
        assert (message := driver.result(0.0)) is None, message
        return step in cluster.steps().values()

    wait_until(is_there, f"the run is at {step}", WITHIN)


def history(cluster: Cluster, name: str) -> Path:
    shutil.copytree(cluster.folder / "landed", cluster.folder / name)
    return cluster.folder / name


@pytest.mark.domain("pipeline together")
def test_two_drivers_run_two_brokers_at_once(cluster: Cluster) -> None:
    url = history(cluster, "two-drivers")
    before = cluster.executors()
    half = str(cluster.folder / "half")
    first, second = (cluster.driver(url, SPARK_CONF_DIR=half) for _ in range(2))
    with ending(first, second):
        # Both are up before either starts its run, which starts Spark first.
        wait_until(lambda: first.result(0.1) or first.holder, "the first driver is up", WITHIN)
        wait_until(lambda: second.result(0.1) or second.holder, "the second driver is up", WITHIN)
        first.send(Piece(broker="b"))
        second.send(Piece(broker="c"))
        wait_until(lambda: set(cluster.steps()) == {"b", "c"}, "both runs are in progress", WITHIN)
        assert [result(driver)["result"] for driver in (first, second)] == ["done", "done"]
        assert cluster.executors() - before == 2
        assert contents(str(url)) == cluster.local
        first.send(Piece(HistoryRun.ADVISE))
        assert result(first)["result"] == "done"
    assert recommendations(url) == cluster.recommended


@pytest.mark.domain("pipeline killed")
def test_run_whose_workers_are_killed_makes_the_same_tables(cluster: Cluster) -> None:
    url = history(cluster, "killed-workers")
    before = cluster.executors()
    driver = cluster.driver(url)
    with ending(driver):
        driver.send(Piece())
        wait_for_step(driver, "episodes", cluster)
        assert cluster.executors() - before == 2, "each worker had an executor"
        cluster.start_worker()
        wait_for_step(driver, "minutes", cluster)
        # Cached rows and files of shuffles are lost with their executors, wherever they were.
        for _ in range(2):
            kill(cluster.workers.pop(0))
        cluster.start_worker()
        assert result(driver)["result"] == "done"
    assert contents(str(url)) == cluster.local


@pytest.mark.domain("pipeline killed")
def test_driver_takes_over_from_one_that_was_killed_between_two_commits(cluster: Cluster) -> None:
    url = history(cluster, "killed-driver")
    dying = cluster.driver(url, "-m", "tests.history.pipeline.dying_driver", "hours", PYTHONPATH=str(ROOT))
    with ending(dying):
        dying.send(Piece(broker="b"))
        with pytest.raises(Died, match="SIGKILL"):
            result(dying)
    assert read(str(url), "minutes").num_rows
    left_over = list(url.glob("tables/hours/**/*.parquet"))
    assert left_over, "files of the commit that it did not make"
    assert not read(str(url), "hours").num_rows

    driver = cluster.driver(url)

    def attempt(broker: str) -> str:
        driver.send(Piece(broker=broker))
        return str(result(driver)["result"])

    with ending(driver):
        wait_until(lambda: driver.result(0.1) or driver.holder, "the next driver is up", WITHIN)
        # On its own host a killed driver is known to be dead; on another one only its lease shows that.
        leave_lease_of_another_host(cluster, "+200 seconds")
        assert attempt("b") == "busy"
        # The clocks of two hosts may differ: so the driver also waits until it has seen no renewal for some time.
        leave_lease_of_another_host(cluster, "-1 seconds")
        assert attempt("b") == "busy"
        assert attempt("c") == "done", "other brokers do not wait"
        outcomes: list[str] = []

        def is_taken_over() -> bool:
            outcomes.append(attempt("b"))
            return outcomes[-1] != "busy"

        wait_until(is_taken_over, "the lease is taken over", WITHIN)
        assert outcomes[-1] == "done"
    assert contents(str(url)) == cluster.local
    for path in left_over:
        os.truncate(path, 0)
    assert contents(str(url)) == cluster.local, "no file that the dead run left is read"


def leave_lease_of_another_host(cluster: Cluster, until: str) -> None:
    """Change the lease of broker b, which a killed driver left, to one of another host. `until`: from now on, in
    SQLite's notation."""
    new = f"holder = 'elsewhere:1:1:1', until = datetime('now', '{until}')"
    assert cluster.ask(f"UPDATE history_held SET {new} WHERE name = 'history~b' RETURNING 1") == [(1,)]
