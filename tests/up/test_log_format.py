"""`--log-format json` of real processes: every line parses, from the start over requests and a crash to the end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from console.up.main import ready_message
from tests.up.running import ROOT, Running, free_port, wait_until
from tests.up.test_log_records import parsed
from tests.up.test_up import Up

pytestmark = pytest.mark.timeout(600)

#: Creates an administrator's token, and prints it.
TOKEN = """
from django.contrib.auth.models import User
from console.access import administration
from console.access.actor import Actor
from console.permissions.rights import Grant, Role
admin = User.objects.get(username="admin")
print(administration.create_token(Actor(admin), "t", [Grant(role) for role in Role], days=1)[1])
"""


def manage(*arguments: str, data: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HEADGATE_DATA": str(data), **environment}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def records(text: str) -> list[dict[str, Any]]:
    return [parsed(line) for line in text.split("\n")[:-1]]


def entries_of_tasks(text: str) -> list[dict[str, Any]]:
    whole = text[: text.rfind("\n") + 1]
    return [each for each in records(whole) if each.get("task_id") and "audit_entry" in each]


def test_the_generated_password_is_in_no_record(tmp_path: Path) -> None:
    made = ready_message("admin correct-horse\n", tmp_path)
    assert "correct-horse" not in made
    assert "changepassword admin" in made
    assert ready_message("", tmp_path) == "ready"


@pytest.mark.slow
def test_every_line_of_up_is_a_record_from_start_to_shutdown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Up(tmp_path, "--log-format", "json", "--demo", "--verbose", data=data) as up:
        up.wait_for('"message": "ready', within=240)
        token = manage("shell", "-v", "0", "-c", TOKEN, data=data).stdout.strip().splitlines()[-1]
        url, bearer = f"http://127.0.0.1:{up.port}", {"Authorization": f"Bearer {token}"}
        forged = '"}\n{"level": "CRITICAL", "message": "forged'
        got = requests.get(f"{url}/x%0a%22{forged}", headers={"X-Request-ID": '"a'}, params={"p": token}, timeout=60)
        assert len(got.headers["X-Request-ID"]) == 32
        stop = {"scope": "type=Broker", "reason": 'a "reason"', "for_ms": 1000}
        headers = {**bearer, "X-Request-ID": "stop-1"}
        answer = requests.post(f"{url}/api/v1/stop-producers/", json=stop, headers=headers, timeout=60)
        assert (answer.status_code, answer.headers["X-Request-ID"]) == (200, "stop-1")
        bulk = {"selection": {"pattern": "orders"}, "attributes": {"capacity_messages": 700}, "reason": "limit"}
        headers = {**bearer, "X-Request-ID": "bulk-1"}
        assert requests.post(f"{url}/api/v1/policies/bulk/", json=bulk, headers=headers, timeout=60).status_code < 300
        wait_until(lambda: entries_of_tasks(up.out), "an audit entry of the task", within=90)
        recorder = next(p for p in up.descendants() if "recorder" in p.cmdline())
        recorder.send_signal(signal.SIGKILL)
        up.wait_for("was ended by SIGKILL", within=60)
        audit = requests.get(f"{url}/api/v1/audit/?request=bulk-1", headers=bearer, timeout=60).json()["results"]
        up.end(signal.SIGTERM, within=60)
    found = records(up.out)
    assert up.err == ""
    assert token not in up.out
    assert not [each for each in found if each["level"] == "CRITICAL" or "mark" in each]
    assert {"broker", "web", "recorder", "demo", "up"} <= {each["process"] for each in found}
    (stopped,) = [each for each in found if each.get("request_id") == "stop-1" and "audit_entry" in each]
    assert (stopped["process"], stopped["operation"], stopped["user"]) == ("web", "stop-producers", "admin")
    edited = [each for each in found if each.get("request_id") == "bulk-1" and each.get("task_id")]
    assert {each["process"] for each in edited} == {"worker"}
    assert {each["audit_entry"] for each in edited if "audit_entry" in each} <= {row["id"] for row in audit}
    assert any(each.get("event") and each["process"] == "broker" for each in found)
    assert found[-1]["message"] == "stopped"


def test_a_process_of_its_own_writes_records_too(tmp_path: Path) -> None:
    port = str(free_port())
    arguments = ["manage.py", "broker", "--log-format=json", "--port", port, "--data", str(tmp_path / "broker")]
    with Running(arguments, tmp_path) as broker:
        broker.wait_for("broker ready on")
        broker.process.send_signal(signal.SIGTERM)
        broker.process.wait(30)
    found = [*records(broker.out), *records(broker.err)]
    assert {each["process"] for each in found} == {"broker"}
    assert {"stdout", "headgate.broker.events"} <= {each["logger"] for each in found}


@pytest.mark.parametrize("command", ["web", "adapters"])
def test_an_error_of_a_process_is_a_record(tmp_path: Path, command: str) -> None:
    answer = manage(command, "--log-format", "json", "--port", "99999", data=tmp_path)
    (found,) = records(answer.stderr)
    assert (answer.returncode, found["process"], "--port is 99999" in found["message"]) == (1, command, True)


def test_a_setting_in_an_error_cannot_forge_a_line(tmp_path: Path) -> None:
    url = 'nosuch://a\n{"level": "CRITICAL", "message": "forged"}\n"b'
    answer = manage("recorder", data=tmp_path, HEADGATE_LOG_FORMAT="json", HEADGATE_HISTORY_URL=url)
    found = records(answer.stderr)
    assert found
    assert "CRITICAL" not in {each["level"] for each in found}


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    for arguments in (("--log-format", "xml"), ("--log-format=xml",), ("--log-format",)):
        answer = manage("worker", *arguments, data=tmp_path)
        assert answer.returncode == 2
        assert "it must be one of text, json" in answer.stderr
    assert "must be one of" in manage("up", data=tmp_path, HEADGATE_LOG_FORMAT="xml").stderr


def test_a_refused_start_is_a_record(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = ("--log-format", "json", "--port", port, "--amqp-port", str(free_port()))
        (found,) = records(manage("up", *arguments, "--data", str(tmp_path / "data"), data=tmp_path).stdout)
    assert (found["level"], f"port {port} on 127.0.0.1 is taken" in found["message"]) == ("CRITICAL", True)
