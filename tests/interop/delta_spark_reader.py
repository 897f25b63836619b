"""Read tables with delta-spark and print their rows, columns, brokers and versions, as JSON.

    python delta_spark_reader.py '{"minutes": "/folder/tables/minutes"}'

A process of its own: its session has Delta's extension, which Headgate's has not. The resolver of Spark fetches the two
jars once; Delta's other dependencies are not needed to read a table.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from console.history.pipeline.spark.java import cache, find_java

_NOT_NEEDED = (
    *(f"io.delta:delta-kernel-{part}" for part in ("api", "defaults", "unitycatalog")),
    *(f"io.unitycatalog:unitycatalog-{part}" for part in ("client", "hadoop")),
    *(f"org.apache.logging.log4j:log4j-{part}" for part in ("api", "core", "slf4j2-impl")),
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
)


def session() -> SparkSession:
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = ".".join(version("pyspark").split(".")[:2])
    settings = {
        "spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}",
        "spark.jars.excludes": ",".join(_NOT_NEEDED),
        "spark.jars.ivy": str(cache() / "ivy"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
    }
    builder = SparkSession.builder.master("local[2]").appName("delta-spark-reader")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main(tables: dict[str, str]) -> None:
    spark = session()
    found = {}
    for name, path in tables.items():
        rows = spark.read.format("delta").load(path)
        brokers = sorted(row.broker for row in rows.select("broker").distinct().collect())
        # A value of a partition's column comes from the log, the same value is in the file.
        one = rows.where(rows.broker == brokers[0])
        history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").agg({"version": "max"}).first()
        found[name] = {
            "rows": rows.count(),
            "brokers": brokers,
            "columns": sorted(rows.columns),
            "rows_of_first": one.count(),
            "version": None if history is None else history[0],
        }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
