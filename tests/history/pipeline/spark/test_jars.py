"""Delta Lake's jars: where they are found, and the error without them and without a network."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest

from console.history.pipeline.spark import jars
from tests.history.processes import environment, manage
from tests.history.rows import Story, land


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without jars."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADGATE_SPARK_JARS", raising=False)
    return tmp_path


def put(folder: Path, prefix: str = "", *, whole: bool = True) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{prefix}{artifact}-{number}.jar" for artifact, number in jars.coordinates()]
    for path in made:
        if whole:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x", "y")
        else:
            path.write_bytes(b"PK half of it")
    return made


def test_missing_jars_are_fetched() -> None:
    assert all(artifact in jars.missing() for artifact, _ in jars.coordinates())
    assert jars.jar_settings()["spark.jars.packages"].startswith("io.delta:delta-spark_")


def test_configured_folder_precedes_fetched_jars(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = put(home / "cache" / "headgate" / "ivy" / "jars", "io.delta_")
    assert jars.find_jars() == fetched
    assert jars.missing() == ""
    named = put(home / "named")
    monkeypatch.setenv("HEADGATE_SPARK_JARS", str(home / "named"))
    assert jars.find_jars() == named
    assert jars.jar_settings() == {"spark.jars": ",".join(map(str, named))}
    (home / "named" / "hadoop-aws.jar").write_bytes(b"x")
    assert jars.jar_settings()["spark.jars"].endswith("/named/hadoop-aws.jar")


def test_incomplete_fetched_jar_is_fetched_again(home: Path) -> None:
    half = put(home / "cache" / "headgate" / "ivy" / "jars", "io.delta_", whole=False)
    assert jars.missing()
    assert "spark.jars.packages" in jars.jar_settings()
    assert not any(path.exists() for path in half)


@pytest.mark.timeout(300)
def test_error_without_a_network_names_the_missing_jars_and_the_folder(home: Path) -> None:
    nowhere = " ".join(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https"))
    env = environment(home / "data", JAVA_TOOL_OPTIONS=f"-Duser.home={home} {nowhere}")
    land(str(home / "data" / "history"), Story().watch(0, 1).rows)
    assert manage("migrate", "--verbosity", "0", env=env).returncode == 0
    done = manage("history", "--once", "run", env=env)
    assert done.returncode == 1
    assert "they are not on this machine" in done.stdout
    said = done.stderr.splitlines()[-1]
    assert "could not be fetched" in said
    assert all(f"{artifact}-{number}.jar" in said for artifact, number in jars.coordinates())
    assert "HEADGATE_SPARK_JARS" in said
    with sqlite3.connect(home / "data" / "console" / "console.sqlite3") as database:
        ((step, error),) = database.execute("SELECT step, error FROM history_historyrun").fetchall()
    assert step == "fetching Delta Lake's jars"
    assert error.startswith("NoJars: Delta Lake's jars could not be fetched")
