"""`manage.py` itself: the commands that it lists, and which of them load Django."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.up.running import ROOT


def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("help",)])
def test_without_a_command_headgates_commands_are_listed_first(arguments: tuple[str, ...]) -> None:
    done = manage(*arguments)
    assert done.returncode == 0, done.stderr
    places = [
        done.stdout.index(f"headgate {name}") for name in ("up", "broker", "demo", "web", "recorder", "import-log")
    ]
    assert places == sorted(places)
    assert places[-1] < done.stdout.index("[auth]")


@pytest.mark.parametrize("command", ["up", "broker", "demo"])
def test_our_commands_run_without_django(command: str) -> None:
    """Their help is printed without Django, and without the console but for the commands and `up` itself."""
    start = ("console", "console.catalog", "console.commands")
    modules = ("main", "supervisor", "process_output", "shown_lines")
    up = ("console.up", *(f"console.up.{name}" for name in modules))
    own = repr((*start, *up) if command == "up" else start)
    refuse = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.split('.')[0]\n"
        f"        if top in ('django', 'console', 'channels', 'rest_framework') and name not in {own}:\n"
        "            raise AssertionError(name + ' was imported')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import manage\n"
        f"sys.exit(manage.main(['manage.py', {command!r}, '--help']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", refuse], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"headgate {command}" in done.stdout


def test_an_unknown_command_is_refused_by_name() -> None:
    done = manage("frobnicate")
    assert done.returncode != 0
    assert "frobnicate" in done.stderr


@pytest.mark.parametrize(("end", "code"), [("None", 0), ("sys.exit(0)", 0), ("sys.exit(3)", 3)])
def test_service_that_has_finished_exits_without_pythons_finalization(end: str, code: int) -> None:
    """That takes longer than all the rest, and there are five of them: they were killed in the middle of it."""
    slow = (
        "import atexit, sys, threading, time\n"
        "import django.core.management as commands\n"
        "def work(argv):\n"
        "    print('worked')\n"
        "    atexit.register(time.sleep, 600)\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        f"    {end}\n"
        "commands.execute_from_command_line = work\n"
        "import manage\n"
        "sys.exit(manage.main(['manage.py', 'web']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", slow], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("worked\n", "", code)
