"""The wheel: built from the sources, installed into an environment of its own and started in an empty folder, it works
without the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from proton import Message
from proton.utils import BlockingConnection

from console.help.documents import DOCUMENTS
from tests.up.running import ROOT, Running, free_port
from tests.up.test_up import READY, READY_WITHIN, STOPPED

pytestmark = pytest.mark.timeout(900)

#: What a wheel is built from. The copy has no result of an earlier build, which would get into the wheel.
SOURCES = ("brokers", "console", "templates", "pyproject.toml", "README.md", ".readme")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as for a release, from the source distribution; with what uv has stored, without the network."""
    folder = tmp_path_factory.mktemp("build")
    sources = folder / "sources"
    sources.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "node_modules")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=ignored, symlinks=True)
        else:
            shutil.copy(ROOT / name, sources / name)
    uv("build", "--offline", "--out-dir", str(folder), str(sources))
    [found] = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone. Its dependencies are those of the tests, which include the project itself
    only by a file that is not read here."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    uv("venv", "--offline", "--python", sys.executable, str(folder))
    python = folder / "bin" / "python"
    uv("pip", "install", "--offline", "--no-deps", "--python", str(python), str(wheel))
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def uv(*arguments: str) -> None:
    command = [found] if (found := shutil.which("uv")) else [sys.executable, "-m", "uv"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def outside() -> dict[str, str]:
    """The environment variables of a user who has no repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("HEADGATE_", "PYTHON", "DJANGO"))}


class Installed(Running):
    """`headgate up` of the environment, in an empty folder."""

    def __init__(self, environment: Path, folder: Path, *options: str) -> None:
        self.port, self.amqp_port = free_port(), free_port()
        ports = ["--port", str(self.port), "--amqp-port", str(self.amqp_port)]
        program = [str(environment / "bin" / "headgate"), "up", *ports, *options]
        super().__init__(program, folder.parent, cwd=folder, env=outside(), python=False)


class Site:
    """A signed-in session, with the requests of a page."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = url
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        form = {"username": user, "password": password, "csrfmiddlewaretoken": self._token("/login/"), "next": "/"}
        headers = {"Referer": f"{url}/login/"}
        request = urllib.request.Request(f"{url}/login/", data=urlencode(form).encode(), headers=headers)
        with self._browser.open(request, timeout=30) as answer:
            assert answer.url == f"{url}/"
            self.page = answer.read().decode()

    def _token(self, path: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.get(path))
        assert found
        return found[1]

    def get(self, path: str) -> str:
        with self._browser.open(f"{self.url}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def get_bytes(self, path: str) -> bytes:
        with self._browser.open(f"{self.url}{path}", timeout=30) as answer:
            return bytes(answer.read())

    def create(self, name: str, attributes: dict[str, Any]) -> dict[str, Any]:
        found = re.search(r'"([A-Za-z0-9]{64})"', self.page)
        assert found, "the page has the token for its forms"
        request = urllib.request.Request(
            f"{self.url}/api/v1/brokers/local/objects/",
            data=json.dumps({"object": name, "attributes": attributes, "reason": "test"}).encode(),
            headers={"Content-Type": "application/json", "X-CSRFToken": found[1], "Referer": f"{self.url}/"},
        )
        with self._browser.open(request, timeout=30) as answer:
            return dict(json.load(answer))


@pytest.fixture
def installed(environment: Path, empty: Path) -> Iterator[Installed]:
    with Installed(environment, empty) as up:
        up.wait_for(READY, within=READY_WITHIN)
        yield up


def test_installed_wheel_runs_in_an_empty_folder(installed: Installed, environment: Path, empty: Path) -> None:
    found = re.search(r"admin, password (\S+)\n", installed.out)
    assert found, installed.out
    assert "change it with `headgate changepassword admin`" in installed.out  # there is no `uv run` here
    site = Site(f"http://127.0.0.1:{installed.port}", "admin", found[1])
    scripts = re.findall(r'(?:src|href)="(/static/[^"]+)"', site.page)
    assert scripts
    for path in scripts:
        assert site.get(path)

    for document in DOCUMENTS:
        page = site.get(f"/help/{document.slug}/")
        assert f'aria-current="page">{document.title}' in page
        for picture in re.findall(r'<img class="in-\w+" src="([^"]+)"', page):
            site.get_bytes(picture)

    site.create("type=Queue,virtualhost=default,name=parcels", {})
    user = site.create("type=User,name=app", {"grants": ["default:publish,consume"]})
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{installed.amqp_port}", timeout=30, user="app", password=user["attributes"]["password"]
    )
    connection.create_sender("parcels").send(Message(body="of an installed client"))
    taken = connection.create_receiver("parcels", credit=1).receive(timeout=30)
    connection.close()
    assert taken.body == "of an installed client"

    assert [entry.name for entry in empty.iterdir()] == ["data"]
    assert f"Data       {empty}/data" in installed.out
    for process in installed.descendants():
        assert not [part for part in process.cmdline() if str(ROOT) in part and "/.venv/" not in part]
        assert process.cwd() == str(empty)
    installed.end(signal.SIGTERM, within=STOPPED)
    assert installed.process.returncode == 0


def test_commands_of_the_wheel_read_no_module_of_the_current_folder(environment: Path, empty: Path) -> None:
    """An empty folder of a name that Headgate uses is not taken for Headgate's own."""
    for name in ("console", "brokers"):
        (empty / name).mkdir()
        (empty / name / "__init__.py").write_text("raise SystemExit('the wrong module')\n")
    for arguments in (["--help"], ["broker", "--help"], ["manage", "check"], ["migrate", "--verbosity", "0"]):
        program = [str(environment / "bin" / "headgate"), *arguments]
        done = subprocess.run(
            program, cwd=empty, env=outside(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_has_what_the_processes_read(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("static", "templates", "metrics"):
        read = {
            path for path in (ROOT / "console" / top).rglob("*") if path.is_file() and "__pycache__" not in str(path)
        }
        missing = {str(path.relative_to(ROOT)) for path in read} - names
        assert read
        assert not missing
    assert not [name for name in names if name.startswith(("tests/", "bench/"))]
