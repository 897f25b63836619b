"""Delta Lake's two jars: found on this machine, otherwise fetched once by Spark's resolver.

The Python package has no jars. They are searched for, in this order, in the folder HEADGATE_SPARK_JARS, in Maven's
local repository and in the folder of Spark's resolver (9 MB, in this user's cache); a
machine without a network needs them in one of these. A repository other than Maven Central is a setting of Spark:
`spark.jars.repositories` or `spark.jars.ivySettings` in `spark-defaults.conf`. Other jars in HEADGATE_SPARK_JARS, such
as an object store's file system, are used, too.

Delta's other dependencies (readers for Unity Catalog, another copy of Hadoop, 80 MB) are not needed here and are
excluded.
"""

from __future__ import annotations

import os
import zipfile
from importlib.metadata import version
from pathlib import Path

from console.history.pipeline.spark.java import cache

#: Dependencies that are not fetched.
EXCLUDED = (
    *(f"io.delta:delta-kernel-{part}" for part in ("api", "defaults", "unitycatalog")),
    *(f"io.unitycatalog:unitycatalog-{part}" for part in ("client", "hadoop")),
    *(f"org.apache.logging.log4j:log4j-{part}" for part in ("api", "core", "slf4j2-impl")),  # Spark has them
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
)


def coordinates() -> tuple[tuple[str, str], ...]:
    """Return (artifact, version) of the jars for the installed Python packages."""
    delta = version("delta-spark")
    spark = ".".join(version("pyspark").split(".")[:2])
    return ((f"delta-spark_{spark}_2.13", delta), ("delta-storage", delta))


def jar_settings() -> dict[str, str]:
    """Return Spark's settings for the jars: their paths if found, otherwise their coordinates for the resolver."""
    found = find_jars()
    others = _others_in_folder()
    if found:
        return {"spark.jars": ",".join(map(str, [*found, *others]))}
    artifact, number = coordinates()[0]
    for path in (_fetched() / f"io.delta_{name}-{its}.jar" for name, its in coordinates()):
        path.unlink(missing_ok=True)  # incomplete after a kill, which the resolver does not notice
    return {
        "spark.jars.packages": f"io.delta:{artifact}:{number}",
        "spark.jars.excludes": ",".join(EXCLUDED),
        "spark.jars.ivy": str(cache() / "ivy"),
        **({"spark.jars": ",".join(map(str, others))} if others else {}),
    }


def missing() -> str:
    """Return the jars that Spark has to fetch first, as text; empty if none."""
    return "" if find_jars() else " and ".join(f"{artifact}-{number}.jar" for artifact, number in coordinates())


def find_jars() -> list[Path]:
    """Return all jars, or none. Another patch release in a Maven repository is accepted."""
    wanted = coordinates()
    release = wanted[0][1].rsplit(".", 1)[0]
    for number in (wanted[0][1], *_others(wanted[0][0], release)):
        found = [_find(artifact, number) for artifact, _ in wanted]
        if all(found):
            return [path for path in found if path]
    return []


def _find(artifact: str, number: str) -> Path | None:
    name = f"{artifact}-{number}.jar"
    places = [_maven() / artifact / number / name]
    if folder := os.environ.get("HEADGATE_SPARK_JARS"):
        places.insert(0, Path(folder) / name)
    fetched = (_fetched(), *(folder / "jars" for folder in sorted(Path.home().glob(".ivy2*"))))
    places += [folder / f"io.delta_{name}" for folder in fetched]
    return next((path for path in places if path.is_file() and zipfile.is_zipfile(path)), None)


def _others_in_folder() -> list[Path]:
    """Return the other jars in HEADGATE_SPARK_JARS, such as an object store's file system."""
    folder = os.environ.get("HEADGATE_SPARK_JARS")
    ours = tuple(f"{artifact}-" for artifact, _ in coordinates())
    return sorted(path for path in Path(folder).glob("*.jar") if not path.name.startswith(ours)) if folder else []


def _fetched() -> Path:
    return cache() / "ivy" / "jars"


def _others(artifact: str, release: str) -> list[str]:
    return sorted((path.name for path in (_maven() / artifact).glob(f"{release}.*")), reverse=True)


def _maven() -> Path:
    return Path.home() / ".m2" / "repository" / "io" / "delta"
