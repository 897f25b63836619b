"""A store of an earlier release of which the disk cannot read a message: the conversion names it, changes nothing, and
says what can be done. Without the message only if that is wanted."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from brokers.server.store_folder import earlier_of, file_name
from brokers.server.store_survey import FOLDER
from tests.amqp.broker_thread import BrokerThread
from tests.server.earlier_store.test_conversion import files
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.test_store_identity import data, names, receive, send

__all__ = ["data"]  # a fixture

ROOT = Path(__file__).resolve().parents[3]
COMMAND = "import sys; from brokers.server.store_command import main; sys.exit(main(sys.argv[1:]))"
BIG = 60_000


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad_page") / "bad_page.so"
    source = Path(__file__).with_name("bad_page.c")
    flags = ["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-D_LARGEFILE64_SOURCE"]
    subprocess.run(["gcc", *flags, "-o", str(made), str(source), "-ldl"], check=True)
    return made


class Dumped(list[dict[str, Any]]):
    """The lines of a dump. `errors`: what it says besides."""

    errors: list[str]


def dumped(data: Path, environment: dict[str, str], *options: str) -> Dumped:
    ended = converted(data, environment, *options, by="dump")
    found = Dumped(map(json.loads, ended.stdout.splitlines()))
    found.errors = ended.stderr.splitlines()
    assert ended.returncode == (1 if found.errors else 0), ended.stderr
    return found


def converted(
    data: Path, environment: dict[str, str], *options: str, by: str = "convert"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMAND, by, "--data", str(data), *options]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=100, check=False
    )


@pytest.mark.parametrize(("runs", "by"), [(False, "convert"), (True, "convert"), (False, "adopt")])
def test_message_that_the_disk_cannot_read_is_named_and_left_out_only_if_that_is_wanted(
    data: Path, library: Path, runs: bool, by: str
) -> None:
    """`runs`: what is behind it in the same row cannot be read either."""
    with BrokerThread(data) as broker:
        send(broker, "dq", "x" * BIG, "behind it", *names("n", 3))
    as_of_the_release_before(data, runs=runs)
    path = earlier_of(data / FOLDER / file_name("default"))
    page = path.read_bytes().index(b"x" * 7000) + 24_000
    environment = {"LD_PRELOAD": str(library), "BAD_FILE": str(path.resolve()), "BAD_AT": str(page - page % 8192)}
    before = files(data)
    refused = converted(data, environment, by=by)
    assert refused.returncode == 1, refused.stderr
    named = ", ".join(f"{number} of queue number 1" for number in ((31, 32, 33, 34, 35) if runs else (31,)))
    assert f"the disk cannot read message {named} of {path}, which is as it was. Start again if that" in refused.stderr
    assert f"`headgate store {by} --data {data} --leave-unreadable`" in refused.stderr
    is_as_it_was = files(data) == before
    assert is_as_it_was
    left_out = converted(data, environment, "--leave-unreadable", by=by)
    assert left_out.returncode == 0, left_out.stderr
    said = left_out.stderr if by == "convert" else left_out.stdout
    assert f"{path} was damaged: lost: {named}; the damaged file is preserved as" in said
    [copy] = (data / FOLDER).glob(f"{path.name}-damaged-*")
    assert copy.read_bytes() == before[path.relative_to(data / FOLDER)]
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == [*names("m", 30), *([] if runs else ["behind it", *names("n", 3)])]
        assert receive(broker, "second") == names("s", 10)


def test_error_of_the_disk_that_has_passed_at_the_next_start_costs_nothing(data: Path, library: Path) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", "x" * BIG)
    as_of_the_release_before(data)
    path = earlier_of(data / FOLDER / file_name("default"))
    page = path.read_bytes().index(b"x" * 7000) + 24_000
    environment = {"LD_PRELOAD": str(library), "BAD_FILE": str(path.resolve()), "BAD_AT": str(page - page % 8192)}
    assert converted(data, environment).returncode == 1
    with BrokerThread(data) as broker:
        assert receive(broker, "dq") == [*names("m", 30), "x" * BIG]
    assert not list((data / FOLDER).glob("*-damaged-*"))


def test_dump_names_what_the_disk_cannot_read_and_goes_on(data: Path, library: Path) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", "x" * BIG, "behind it")
    as_of_the_release_before(data, runs=False)
    path = earlier_of(data / FOLDER / file_name("default"))
    page = path.read_bytes().index(b"x" * 7000) + 24_000
    environment = {"LD_PRELOAD": str(library), "BAD_FILE": str(path.resolve()), "BAD_AT": str(page - page % 8192)}
    whole = dumped(data, {})
    assert (len(whole), whole.errors) == (30 + 2 + 10, [])
    found = dumped(data, environment, "--bodies")
    assert [line["number"] for line in found] == [line["number"] for line in whole]
    assert [line["number"] for line in found if line["body"] is None] == [31]
    assert found.errors == [
        f"store: {path}: message 31 of queue number 1 is not as it was written",
        f"store: the disk cannot read a part of {path}",
    ]
    found = dumped(data, environment | {"BAD_AT": "0"})
    assert not found
    assert found.errors
    assert all(str(path) in error for error in found.errors)


def test_dump_of_an_index_that_the_disk_cannot_read_says_from_where_on(data: Path, library: Path) -> None:
    with BrokerThread(data) as broker:
        send(broker, "dq", *names("n", 3000))
    as_of_the_release_before(data, runs=False)
    path = earlier_of(data / FOLDER / file_name("default"))
    with closing(sqlite3.connect(path)) as db:
        pages = [
            number
            for (number,) in db.execute(
                "SELECT pageno FROM dbstat WHERE name = 'message_place' AND pagetype = 'leaf' ORDER BY path"
            )
        ]
        [(size,)] = db.execute("PRAGMA page_size").fetchall()
    environment = {"LD_PRELOAD": str(library), "BAD_FILE": str(path.resolve())}
    found = dumped(data, environment | {"BAD_AT": str((pages[len(pages) // 2] - 1) * size)})
    assert 300 < len(found) < 3030
    [error] = [line for line in found.errors if line.endswith("are not listed")]
    assert str(path) in error
