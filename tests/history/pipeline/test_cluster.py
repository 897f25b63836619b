"""The pipeline on a Spark cluster of a master and two workers produces the tables of local mode."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from console.history.pipeline.run import Run
from console.history.pipeline.spark.java import find_java
from console.history.storage.tables import Tables
from console.history.whatif.fleet_recommendations import write_recommendations
from console.history.whatif.recommend import ADVICE
from tests.history.delta import read
from tests.history.processes import contents, environment, manage, running
from tests.history.rows import Story, land
from tests.up.running import free_port, wait_until

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the master's URL, and the environment of its clients."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    spark = Path(spec.origin).parent
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "spark.executor.memory 512m\nspark.driver.bindAddress 127.0.0.1\nspark.driver.host 127.0.0.1\n"
        "spark.sql.shuffle.partitions 2\nspark.executor.extraJavaOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1\n"
    )
    env = environment(
        tmp_path / "data",
        JAVA_HOME=str(find_java().home),
        SPARK_HOME=str(spark),
        SPARK_CONF_DIR=str(tmp_path / "conf"),
        SPARK_NO_DAEMONIZE="1",
        SPARK_DAEMON_MEMORY="256m",
    )
    port, status = free_port(), free_port()
    start = str(spark / "bin" / "spark-class")
    where = ["--host", "127.0.0.1"]
    log = tmp_path / "cluster.log"
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master_command = ["org.apache.spark.deploy.master.Master", *where, "--port", str(port)]
        stack.enter_context(running(start, *master_command, "--webui-port", str(status), env=env, log=log))
        for number in (1, 2):
            worker_command = ["org.apache.spark.deploy.worker.Worker", *where, "--cores", "1", "--memory", "700m"]
            folder = ["--work-dir", str(tmp_path / f"worker-{number}"), "--webui-port", "0"]
            stack.enter_context(running(start, *worker_command, *folder, master, env=env, log=log))

        def workers() -> int:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{status}/json/", timeout=5) as answer:
                    return int(json.load(answer)["aliveworkers"])
            except (OSError, ValueError):  # it does not listen or respond yet
                return 0

        wait_until(lambda: workers() == 2, "two workers are there", within=120)
        yield master, env


def story() -> dict[str, list[dict[str, Any]]]:
    story = Story().watch(0, 9000)
    for second in range(0, 7200, 30):
        for queue in ("orders", "images"):
            story.sample(second, second % 97, queue, enqueued_messages=second * 3, dequeued_messages=second * 2)
    for minute in range(0, 100, 7):
        story.overfull(minute * 60 + 5, "orders").blocked(minute * 60 + 5, queue="orders")
        story.underfull(minute * 60 + 50, "orders").released(minute * 60 + 50, queue="orders")
    return story.overfull(7000, "images").rows


def advice(url: Path) -> list[dict[str, Any]]:
    table = read(str(url), "recommendations").sort_by("queue")
    return list(table.select(["queue", *ADVICE.names]).to_pylist())


def test_cluster_produces_the_tables_of_local_mode(
    cluster: tuple[str, dict[str, str]], tmp_path: Path, spark: Any
) -> None:
    master, env = cluster
    land(str(tmp_path / "history"), story())
    shutil.copytree(tmp_path / "history", tmp_path / "local")
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0

    def run(url: Path, work: str = "run", **more: str) -> None:
        done: subprocess.CompletedProcess[str] = manage(
            "history", "--once", work, within=600, env=env | {"HEADGATE_HISTORY_URL": str(url)} | more
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(tmp_path / "history", HEADGATE_SPARK_MASTER=master)
    executors = [name for number in (1, 2) for name in os.listdir(tmp_path / f"worker-{number}")]
    assert len(executors) == 2, "each worker had an executor of the job"
    assert spark.sparkContext.master.startswith("local")
    local = Tables(spark, str(tmp_path / "local"))
    Run(local).run()
    write_recommendations(local)
    run(tmp_path / "history", "advise", HEADGATE_SPARK_MASTER=master)
    assert advice(tmp_path / "history") == advice(tmp_path / "local")
    on_cluster, alone = contents(str(tmp_path / "history")), contents(str(tmp_path / "local"))
    assert len(alone["episodes"]) == 16
    assert len(alone["minutes"]) > 300
    assert on_cluster == alone
