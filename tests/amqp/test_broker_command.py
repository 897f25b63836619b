"""`manage.py broker`, as a process: it serves, ends on TERM, and says in one line why it cannot start."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from brokers.amqp import runs
from tests.amqp.broker_thread import wait_until
from tests.certificates import Authority
from tests.interop.peers import absent

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def broker_process(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The running command and its port."""
    command = [sys.executable, "manage.py", "broker", "--data", str(data), "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("broker ready on 127.0.0.1:"), line
        yield process, int(line.rpartition(":")[2])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def refused(*options: str) -> tuple[int, list[str]]:
    """The exit code and the lines on stderr of a broker that cannot start."""
    command = [sys.executable, "manage.py", "broker", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


def test_term_ends_a_broker_with_clients_within_two_seconds_and_it_starts_again(tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with broker_process(data, "--demo") as (process, port):
        connection = BlockingConnection(f"127.0.0.1:{port}", timeout=5, allowed_mechs="ANONYMOUS")
        connection.create_sender("q").send(Message(body="one"))
        silent = socket.create_connection(("127.0.0.1", port))
        began = time.monotonic()
        process.terminate()
        assert process.wait(5) == 0
        assert time.monotonic() - began < 2.0
        silent.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    log = (data / "broker.log").read_text()
    assert "INFO  [broker] BRK-1004 : Ready" in log
    assert "INFO  [vh(/default)/qu(q)] QUE-1001 : Create" in log
    assert (data.stat().st_mode & 0o777) == 0o700
    with broker_process(data) as (process, _):
        process.send_signal(2)
        assert process.wait(5) == 0


def test_a_port_that_is_taken_ends_the_start_with_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, lines = refused("--data", str(tmp_path / "broker"), "--port", str(port))
    assert code == 1
    [line] = lines
    assert f"cannot listen on 127.0.0.1:{port}" in line
    assert "in use" in line
    assert "--port" in line


@pytest.mark.parametrize("inside", [".", "sub", "sub/folder"])
def test_data_folder_that_cannot_be_written_prevents_the_start_with_a_one_line_error(
    tmp_path: Path, inside: str
) -> None:
    (tmp_path / "file").write_text("no folder")
    folder = tmp_path / "file" / inside
    code, lines = refused("--data", str(folder), "--port", "0")
    assert code == 1
    [line] = lines
    assert str(folder) in line


def test_a_data_folder_that_another_broker_uses_ends_the_start_with_one_clear_line(tmp_path: Path) -> None:
    with broker_process(tmp_path / "broker"):
        code, lines = refused("--data", str(tmp_path / "broker"), "--port", "0")
    assert code == 1
    [line] = lines
    assert str(tmp_path / "broker") in line


def test_a_damaged_store_ends_the_start_with_one_clear_line(tmp_path: Path) -> None:
    data = tmp_path / "broker"
    data.mkdir()
    (data / "config.sqlite3").write_bytes(b"this is no database at all, is it" * 100)
    code, lines = refused("--data", str(data), "--port", "0")
    assert code == 1
    [line] = lines
    assert "config.sqlite3" in line


@pytest.mark.parametrize("port", ["70000", "-1", "amqp", "5672.0"])
def test_invalid_port_is_refused_by_name(tmp_path: Path, port: str) -> None:
    code, lines = refused("--data", str(tmp_path / "broker"), f"--port={port}")
    assert code == 2
    assert repr(port) in lines[-1]
    assert not (tmp_path / "broker").exists()


def test_address_of_another_machine_prevents_the_start_with_a_one_line_error(tmp_path: Path) -> None:
    code, lines = refused("--data", str(tmp_path / "broker"), "--host", "192.0.2.1", "--port", "0")
    assert code == 1
    [line] = lines
    assert "192.0.2.1" in line


def test_tls_is_listened_with_and_hup_renews_its_files(tmp_path: Path) -> None:
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    files, renewed = before.server(), after.server()
    options = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key), "--tls-port", "0")
    with broker_process(tmp_path / "broker", "--demo", *options) as (process, _):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("broker ready on 127.0.0.1:")
        assert line.endswith(" (TLS)\n")
        url = f"amqps://127.0.0.1:{line.split(':')[1].split()[0]}"

        def trusted(authority: Authority) -> bool:
            domain = SSLDomain(SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(str(authority.ca))
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
            try:
                BlockingConnection(
                    url, timeout=5, ssl_domain=domain, allowed_mechs="ANONYMOUS", reconnect=False
                ).close()
            except ConnectionException:
                return False
            return True

        assert trusted(before)
        shutil.copy(renewed.certificate, files.certificate)
        shutil.copy(renewed.key, files.key)
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: trusted(after), "the new certificate is shown")
        assert not trusted(before)
        process.terminate()
        assert process.wait(5) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tls-certificate", "{folder}/none.pem", "--tls-key", "{folder}/none.key"], "cannot read the certificate"),
        (["--tls-certificate", "{folder}/none.pem"], "--tls-certificate is given without --tls-key"),
    ],
)
def test_tls_files_that_are_no_good_end_the_start_with_one_clear_line(
    tmp_path: Path, options: list[str], said: str
) -> None:
    options = [option.format(folder=tmp_path) for option in options]
    code, lines = refused("--data", str(tmp_path / "broker"), "--port", "0", *options)
    assert code == 1
    [line] = lines
    assert said in line


@pytest.mark.parametrize(("variable", "expected"), [("", "in batches, by the C extension"), ("1", "one by one, since")])
def test_start_says_how_messages_are_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv(runs.PLAIN, variable)
    if not variable and runs.load() is None:
        absent("the C extension brokers.amqp._runs is not built", "install gcc, and `uv sync`")
    with broker_process(tmp_path / "broker") as (process, _):
        assert process.stdout is not None
        assert expected in process.stdout.readline()
