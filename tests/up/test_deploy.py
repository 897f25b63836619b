"""The files of console/deploy/: the units are valid, and what the container file copies and runs exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console.catalog import HERE, SERVICES
from tests.up.running import ROOT

DEPLOY = ROOT / "console" / "deploy"
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = Path(sys.executable).with_name("headgate")
    for unit in UNITS:
        name = unit.name.replace("@.", "@web.")
        (tmp_path / name).write_text(unit.read_text().replace("/opt/headgate/bin/headgate", str(program)))
    units = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        [analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if str(tmp_path) in line]


def test_commands_of_the_units_exist() -> None:
    commands = re.findall(r"/opt/headgate/bin/headgate (\S+)", "".join(unit.read_text() for unit in UNITS))
    assert set(commands) == {"up", "%i", "backup"}
    assert {"up", "backup"} <= HERE
    processes = set(re.findall(r"headgate@(\w+)", (DEPLOY / "headgate@.service").read_text()))
    assert processes == SERVICES | {"broker", "adapters"}


def test_process_that_the_kernel_kills_for_lack_of_memory_does_not_end_the_broker() -> None:
    """systemd's default is to stop the whole unit, which has all processes of the supervisor."""
    lines = (DEPLOY / "headgate.service").read_text().splitlines()
    assert "OOMPolicy=continue" in lines[lines.index("[Service]") : lines.index("[Install]")]


def test_container_file_copies_and_runs_what_exists() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    arguments = re.findall(r'"([^"]+)"', command)
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments, "--port", "none"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "'none' is not a port" in done.stderr


def test_backups_are_written_and_deleted_in_one_folder_that_the_service_owns() -> None:
    text = (DEPLOY / "headgate-backup.service").read_text()
    [state] = re.findall(r"^StateDirectory=(\S+)$", text, re.MULTILINE)
    [working] = re.findall(r"^WorkingDirectory=(\S+)$", text, re.MULTILINE)
    assert working == f"/var/lib/{state}"
    [written] = re.findall(r'headgate backup "([^/]+)/', text)
    named = re.findall(r"^ExecStart(?:Pre|Post)=.* (/\S+)(?: -name .*)?$", text, re.MULTILINE)
    assert named == [f"{working}/{written}"] * 2
    assert f"`{named[0]}`" in (DEPLOY / "README.md").read_text()
