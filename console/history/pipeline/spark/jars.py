"""Delta Lake's two jars: found on this machine, else fetched once by Spark's own resolver.

The Python package holds no jars. They are looked for, in this order, in the folder HEADGATE_SPARK_JARS, in Maven's
local repository and in the folder where Spark's resolver keeps what it has fetched (9 MB, in this user's cache); a
machine without a network needs them in one of these. Another repository than Maven Central is a setting of Spark's own,
`spark.jars.repositories` or `spark.jars.ivySettings` in `spark-defaults.conf`. Whatever else lies in that folder goes
along, such as an object store's file system.

What else Delta's description names (readers for Unity Catalog, another copy of Hadoop) is for uses that are not ours,
80 MB of it, and left out.
"""

from __future__ import annotations

import os
import zipfile
from importlib.metadata import version
from pathlib import Path

from console.history.pipeline.spark.java import cache

#: What is not fetched along.
EXCLUDED = (
    *(f"io.delta:delta-kernel-{part}" for part in ("api", "defaults", "unitycatalog")),
    *(f"io.unitycatalog:unitycatalog-{part}" for part in ("client", "hadoop")),
    *(f"org.apache.logging.log4j:log4j-{part}" for part in ("api", "core", "slf4j2-impl")),  # Spark has them
    "org.slf4j:slf4j-api",
    "com.google.code.findbugs:jsr305",
)


def coordinates() -> tuple[tuple[str, str], ...]:
    """(artifact, version) of the jars that go with the installed Python packages."""
    delta = version("delta-spark")
    spark = ".".join(version("pyspark").split(".")[:2])
    return ((f"delta-spark_{spark}_2.13", delta), ("delta-storage", delta))


def jar_settings() -> dict[str, str]:
    """Spark's settings that bring the jars: their paths if they are here, else their coordinates for the resolver."""
    found = find_jars()
    others = _others_in_folder()
    if found:
        return {"spark.jars": ",".join(map(str, [*found, *others]))}
    artifact, number = coordinates()[0]
    for path in (_fetched() / f"io.delta_{name}-{its}.jar" for name, its in coordinates()):
        path.unlink(missing_ok=True)  # whoever fetched it was killed: the resolver takes it for whole
    return {
        "spark.jars.packages": f"io.delta:{artifact}:{number}",
        "spark.jars.excludes": ",".join(EXCLUDED),
        "spark.jars.ivy": str(cache() / "ivy"),
        **({"spark.jars": ",".join(map(str, others))} if others else {}),
    }


def missing() -> str:
    """What has to be fetched before Spark can start, for people; empty if all is here."""
    return "" if find_jars() else " and ".join(f"{artifact}-{number}.jar" for artifact, number in coordinates())


def find_jars() -> list[Path]:
    """All of them, or none. A Maven repository that has another patch of the same release will do."""
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
    """What else lies in HEADGATE_SPARK_JARS, such as an object store's file system."""
    folder = os.environ.get("HEADGATE_SPARK_JARS")
    ours = tuple(f"{artifact}-" for artifact, _ in coordinates())
    return sorted(path for path in Path(folder).glob("*.jar") if not path.name.startswith(ours)) if folder else []


def _fetched() -> Path:
    return cache() / "ivy" / "jars"


def _others(artifact: str, release: str) -> list[str]:
    return sorted((path.name for path in (_maven() / artifact).glob(f"{release}.*")), reverse=True)


def _maven() -> Path:
    return Path.home() / ".m2" / "repository" / "io" / "delta"
