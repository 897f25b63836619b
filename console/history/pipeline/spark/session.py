"""The Spark session of the history: on this machine, small and fast to start, or on a cluster.

HEADGATE_SPARK_MASTER (default local[2]) selects it. Other settings of a cluster or an object store belong in Spark's
`spark-defaults.conf` (SPARK_CONF_DIR), which applies to all settings that are not set here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from console.history.pipeline.spark.java import Java, find_java
from console.history.pipeline.spark.scratch import claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[2]"

#: Settings for all masters. Times are UTC: the content of a table must not depend on the machine.
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Seconds. The job has the lowest priority, so on a busy machine a broadcast may take long.
    "spark.sql.broadcastTimeout": "21600",
    # Only committed files are part of a table: no marker of a finished job, no checksums beside the files.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Paths of files are given one by one, and need no parallel listing.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Looking up the Python source line of each expression takes half of the planning time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Spark's own pages, which show plans, are disabled.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    # Rows partitioned by some of the keys need no exchange for a join by all keys, and rows sorted by their keys need
    # no hash table for sums: `rollups.minutes` relies on both.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    # A run has some 500 generated classes, of which each portion of hours needs the same 130. With the default of 100
    # each was evicted before it was needed again, so that Java compiled all of them in each portion.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Spark retains data for its pages even if they are disabled, which fills a small heap after a thousand queries.
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
    # Reading a spilled file takes a buffer of 1 MiB, and with this setting two, which fills a small heap.
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",
}


#: Compiled code of queries remains until the process ends. The reserved memory is not used until it is needed.
#: Both compilers are on: with the first alone a session starts with a third less processor time, but the rollups of
#: large runs take nearly twice as long. Half of the processor time of a session's first run is compilation, so the
#: second compiler has ten times the default thresholds: 20 % less for up to a million rows, no more for a warm session.
_LOCAL_JVM = (
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


class SessionFailed(Exception):
    """Spark could not be started. The message has the reason and the remedy."""


def start_session(
    master: str = "", *, name: str = "headgate-history", java: Java | None = None, scratch: Path | None = None
) -> SparkSession:
    """Return this process's session, or start one. `scratch`: folder for temporary files of local sessions.
    Raises NoJava, SessionFailed."""
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
    else:  # the executors' Python, which may have another path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    heap = os.environ.get("HEADGATE_SPARK_MEMORY") or "512m"
    settings = {**_EVERYWHERE, **(_LOCAL if local else {}), **_jars(), "spark.driver.memory": heap}
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
        raise SessionFailed(f"Spark cannot be started ({master}): {error}") from error


def _jars() -> dict[str, str]:
    """Return Spark's setting for the jars in HEADGATE_SPARK_JARS, such as an object store's file system."""
    folder = os.environ.get("HEADGATE_SPARK_JARS")
    found = sorted(str(path) for path in Path(folder).glob("*.jar")) if folder else []
    return {"spark.jars": ",".join(found)} if found else {}


def _claimed(scratch: Path) -> Path:
    try:
        return claim(scratch)
    except OSError as error:
        raise SessionFailed(f"Spark cannot write to {scratch}: {error.strerror or error}") from error


def is_alive(spark: SparkSession) -> bool:
    """Return whether the session's Java responds and has not stopped."""
    from py4j.protocol import Py4JError

    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False
