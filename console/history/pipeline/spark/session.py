"""The Spark session of the history job: on this machine small and quick to start, or on a cluster.

HEADGATE_SPARK_MASTER (default local[2]) says where; what else a cluster or an object store needs stands in Spark's own
`spark-defaults.conf` (SPARK_CONF_DIR), which holds for everything that is not set here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from console.history.pipeline.spark.jars import jar_settings, missing
from console.history.pipeline.spark.java import Java, find_java
from console.history.pipeline.spark.scratch import claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"

#: Whatever runs it. Times are UTC; what a table holds must not depend on where it was worked out.
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # It runs at the lowest priority: on a busy machine anything may take long, and is no failure for that. Seconds.
    "spark.sql.broadcastTimeout": "21600",
    # deltalake and DuckDB, the readers, know tables of this protocol.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The paths of files are given one by one, and looked at one by one.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Where in our Python each expression was written is not looked up: it costs half of the time that plans take there.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Plans are written out for Spark's own pages, which nobody looks at here.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # What lies together by some of its keys needs no exchange to be joined by all of them, and what is sorted by its
    # keys no hash table to be summed up: `rollups.minutes` relies on both.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    # Spark remembers for its pages what it did, also without them: of a thousand queries that fills a small heap.
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "10",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.log.level": "ERROR",
}

#: One small process beside a broker that needs the processors more.
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.rdd.compress": "true",
    # Each file that a sort has spilled is read back with a buffer of 1 MiB, and with this two: a small heap is full.
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",
}


#: Code compiled for queries stays for as long as the process. What is reserved for it is not taken until it is needed.
#: Both compilers: with the first alone a session is ready with a third less of processor time, and the rollups of large
#: runs take nearly twice as long.
_LOCAL_JVM = ("-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=256m")


class SessionFailed(Exception):
    """Spark could not be started. The message says why and what to do."""


class NoJars(SessionFailed):
    """Delta Lake's jars are not on this machine and could not be fetched."""


def start_session(
    master: str = "", *, name: str = "headgate-history", java: Java | None = None, scratch: Path | None = None
) -> SparkSession:
    """A session, or the one that this process already has. `scratch`: where the sessions of this machine keep what they
    need while they run. Raises NoJava, NoJars, SessionFailed."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    master = master or os.environ.get("HEADGATE_SPARK_MASTER") or LOCAL
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    java = java or find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    local = master.startswith("local")
    if local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:  # that of the executors, which may lie elsewhere there
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    heap = os.environ.get("HEADGATE_SPARK_MEMORY") or "512m"
    settings = {**_EVERYWHERE, **(_LOCAL if local else {}), **jar_settings(), "spark.driver.memory": heap}
    options = " ".join((*(f'"{each}"' for each in java.options), *(_LOCAL_JVM if local else ())))
    if local and scratch is not None:
        mine = _claimed(scratch)
        settings["spark.local.dir"] = str(mine)
        options = f'{options} "-Djava.io.tmpdir={mine}"'.strip()
    if options:
        settings["spark.driver.extraJavaOptions"] = options
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkRuntimeError, OSError, subprocess.SubprocessError) as error:
        if "spark.jars.packages" in settings and missing():
            raise NoJars(
                f"Delta Lake's jars could not be fetched ({settings['spark.jars.packages']}): let this machine reach a"
                f" Maven repository once, or put {missing()} into a folder and name it in HEADGATE_SPARK_JARS"
            ) from error
        raise SessionFailed(f"Spark cannot be started ({master}): {error}") from error


def _claimed(scratch: Path) -> Path:
    try:
        return claim(scratch)
    except OSError as error:
        raise SessionFailed(f"Spark cannot keep anything in {scratch}: {error.strerror or error}") from error


def is_alive(spark: SparkSession) -> bool:
    """Whether its Java answers, and has not given up."""
    from py4j.protocol import Py4JError

    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False
