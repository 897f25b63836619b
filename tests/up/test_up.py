"""`headgate up`: refused with one clear line where it cannot work; started, used and stopped where it can."""

from __future__ import annotations

import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import urllib.request
from contextlib import closing
from http.client import HTTPException
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from console.up.supervisor import KILL_AFTER
from tests.certificates import Authority
from tests.read_only import respecting_permissions
from tests.up.running import ROOT, Running, free_port, lives, wait_until

pytestmark = pytest.mark.timeout(900)


class Up(Running):
    """`headgate up` on free ports."""

    def __init__(self, folder: Path, *options: str, data: Path | None = None) -> None:
        self.port, self.amqp_port = free_port(), free_port()
        arguments = ["manage.py", "up", "--port", str(self.port), "--amqp-port", str(self.amqp_port)]
        super().__init__([*arguments, "--data", str(data or folder / "data"), *options], folder)

    def wait_for_end(self, within: float = 30.0) -> int:
        return self.process.wait(within)


# -- refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--port", "--amqp-port"])
def test_a_port_that_is_taken_is_named_with_its_option(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Up(tmp_path, option, str(port)) as up:
            assert up.wait_for_end() == 1
    assert up.err == f"headgate up: port {port} on 127.0.0.1 is taken: free it, or choose another with {option}\n"


def test_error_of_a_data_folder_that_cannot_be_created_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")  # root may write anywhere, but not below a file
    with Up(tmp_path, data=tmp_path / "file" / "data") as up:
        assert up.wait_for_end() == 1
    assert up.err.startswith(f"headgate up: cannot write to the data folder {tmp_path}/file/data (Not a directory)")
    assert up.err.count("\n") == 1


def test_a_data_folder_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    command = respecting_permissions("manage.py", "up", "--data", str(tmp_path / "data"))
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"headgate up: cannot write to the data folder {tmp_path}/data (Permission denied)")
    assert ended.stderr.count("\n") == 1
    assert not list((tmp_path / "data").iterdir())


def test_error_of_an_address_of_another_machine_names_it(tmp_path: Path) -> None:
    with Up(tmp_path, "--host", "192.0.2.1") as up:
        assert up.wait_for_end() == 1
    assert up.err == "headgate up: --host 192.0.2.1 is not an address of this machine\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "70000"], "'70000' is not a port"),
        (["--port", "none"], "'none' is not a port"),
        (["--port", "7777", "--amqp-port", "7777"], "--port and --amqp-port are both 7777"),
        (["--tls-certificate", "c.pem"], "--tls-certificate is given without --tls-key"),
        (["--tls-port", "7777"], "--tls-port is given without --tls-certificate"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(tmp_path: Path, options: list[str], said: str) -> None:
    with Up(tmp_path, *options) as up:
        assert up.wait_for_end() == 2
    assert said in up.err
    assert up.err.count("\n") == 1
    assert not (tmp_path / "data").exists()


# -- started, used, stopped -------------------------------------------------------------------------------------

READY = "Ctrl-C stops everything."
#: Seconds: a dozen processes share the machine with whatever else runs there.
READY_WITHIN = 300
#: Seconds in which it is stopped at the latest, also where processes had to be killed.
STOPPED = KILL_AFTER + 12


def password(up: Up) -> str:
    found = re.search(r"admin, password (\S+)\n", up.out)
    assert found, up.out
    return found[1]


def login_page(up: Up) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{up.port}/login/", timeout=10) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_started_it_answers_and_a_signal_stops_it(tmp_path: Path, number: int) -> None:
    with Up(tmp_path) as up:
        up.wait_for(READY, within=READY_WITHIN)
        assert f"http://127.0.0.1:{up.port}/" in up.out
        assert f"amqp://127.0.0.1:{up.amqp_port}" in up.out
        assert len(password(up)) >= 12
        assert "<form" in login_page(up)
        with socket.create_connection(("127.0.0.1", up.amqp_port), timeout=5) as connection:
            connection.sendall(b"AMQP\x00\x01\x00\x00")
            assert connection.recv(4) == b"AMQP"
        up.end(number, within=STOPPED)
        assert up.process.returncode == 0
        for port in (up.port, up.amqp_port):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)


def test_with_a_certificate_broker_and_console_have_tls_and_one_signs_in_there(tmp_path: Path) -> None:
    authority, tls_port = Authority(tmp_path / "authority"), free_port()
    files = authority.server()
    options = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key), "--tls-port", str(tls_port))
    with Up(tmp_path, *options) as up:
        up.wait_for(READY, within=READY_WITHIN)
        site = f"https://127.0.0.1:{up.port}"
        assert f"{site}/" in up.out
        assert f"amqps://127.0.0.1:{tls_port}" in up.out
        trusting = ssl.create_default_context(cafile=str(authority.ca))
        cookies = CookieJar()
        browser = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=trusting), urllib.request.HTTPCookieProcessor(cookies)
        )
        page = browser.open(f"{site}/login/", timeout=10).read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token
        form = {"username": "admin", "password": password(up), "csrfmiddlewaretoken": token[1], "next": "/audit/"}
        request = urllib.request.Request(
            f"{site}/login/", data=urlencode(form).encode(), headers={"Referer": f"{site}/login/"}
        )
        assert browser.open(request, timeout=10).url == f"{site}/audit/"
        assert [cookie.secure for cookie in cookies] == [True, True]
        with pytest.raises((HTTPException, OSError)):  # nothing is served in the clear
            login_page(up)
        with (
            socket.create_connection(("127.0.0.1", tls_port), timeout=5) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            connection.sendall(b"AMQP\x00\x01\x00\x00")
            assert connection.recv(4) == b"AMQP"
        up.end(signal.SIGTERM, within=STOPPED)


def test_started_again_it_keeps_the_admin_and_a_second_start_meanwhile_is_refused(tmp_path: Path) -> None:
    with Up(tmp_path) as first:
        first.wait_for(READY, within=READY_WITHIN)
        made = password(first)
        with Up(tmp_path) as second:
            assert second.wait_for_end() == 1
        assert second.err.startswith(
            f"headgate up: the data folder {tmp_path}/data is in use by another `headgate up`"
            f" (process {first.process.pid}): stop that one first"
        )
        assert second.err.count("\n") == 1
        first.end(signal.SIGTERM, within=STOPPED)
    with Up(tmp_path) as again:
        again.wait_for(READY, within=READY_WITHIN)
        assert "password as before" in again.out
        assert made not in again.out
        again.end(signal.SIGTERM, within=STOPPED)


def test_a_killed_supervisor_leaves_no_process_and_the_folder_free(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        up.wait_for(READY, within=READY_WITHIN)
        up.end(signal.SIGKILL, within=5)
    with Up(tmp_path) as again:
        again.wait_for(READY, within=READY_WITHIN)
        again.end(signal.SIGTERM, within=STOPPED)


def test_a_broker_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with Up(tmp_path) as up:
        up.wait_for(READY, within=READY_WITHIN)
        broker = next(child for child in up.descendants() if "broker" in child.cmdline())
        broker.send_signal(signal.SIGKILL)
        up.wait_for("broker  | runs again")
        assert "broker  | messages are handled in batches, by the C extension" in up.out
        children = psutil.Process(up.process.pid).children()
        assert [child for child in children if child != broker and lives(child) and "broker" in child.cmdline()]
        up.end(signal.SIGTERM, within=STOPPED)


def test_the_demo_is_started_on_request_and_stopped_with_the_rest(tmp_path: Path) -> None:
    with Up(tmp_path, "--demo") as up:
        up.wait_for(READY, within=READY_WITHIN)
        up.wait_for("demo    | ", within=30)
        wait_until(lambda: any("demo" in child.cmdline() for child in up.descendants()), "the demo runs")
        published = tmp_path / "data" / "history" / "recorder" / "local"
        wait_until(lambda: all(list(published.glob(f"{k}~*")) for k in ("events", "samples")), "it is recorded")
        up.end(signal.SIGINT, within=STOPPED)


def test_worker_and_beat_are_named_started_again_and_stopped_with_the_rest(tmp_path: Path) -> None:
    with Up(tmp_path, "--verbose") as up:
        up.wait_for(READY, within=READY_WITHIN)
        up.wait_for("beat    | at work", within=30)
        up.wait_for("worker  | ", within=30)

        def one(name: str) -> psutil.Process | None:
            children = psutil.Process(up.process.pid).children()
            return next((child for child in children if lives(child) and name in child.cmdline()), None)

        for name in ("worker", "beat"):
            killed = one(name)
            assert killed is not None
            killed.send_signal(signal.SIGKILL)
            up.wait_for(f"{name:<8}| was ended by SIGKILL")
            wait_until(lambda name=name, was=killed: one(name) not in (None, was), f"{name} runs again")  # type: ignore[misc]
        wait_until(lambda: up.out.count("beat    | at work") == 2, "the new beat took over", within=30)
        up.end(signal.SIGTERM, within=STOPPED)


def test_beat_finds_due_work_and_the_worker_does_it(tmp_path: Path) -> None:
    """A delivery without a message in the queue: the sweep finds it, and its receiver no longer exists."""
    data = tmp_path / "data"
    with Up(tmp_path, data=data) as up:
        up.wait_for(READY, within=90)
        with closing(sqlite3.connect(data / "console" / "console.sqlite3", timeout=20)) as database:
            delivery = ("0" * 32, "2027-01-01 00:00:00", "rule", "local", "firing", "[]", 1)
            database.execute(
                "insert into alerts_notification"
                " (id, at, rule_name, broker, phase, items, count, incident, still_firing)"
                " values (?, ?, ?, ?, ?, ?, ?, '', 0)",
                delivery,
            )
            database.execute(
                "insert into alerts_delivery"
                " (notification_id, receiver_name, state, due, tries, attempts, settled, lease_holder)"
                " values (?, 'gone', 'waiting', '2026-01-01 00:00:00', 0, '[]', '{}', '')",
                delivery[:1],
            )
            database.commit()

            def outcome() -> str:
                return str(database.execute("select state || attempts from alerts_delivery").fetchone()[0])

            wait_until(lambda: "the receiver has been deleted" in outcome(), "it is done", within=60)
            assert outcome().startswith("failed")
        folder = data / "worker" / "queue"
        wait_until(lambda: not list(folder.glob("*.msg")), "no message is left", within=30)
        up.end(signal.SIGTERM, within=STOPPED)
