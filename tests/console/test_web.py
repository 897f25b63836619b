"""The web process: headers of all responses, secrets, start and end."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import QuerySet
from django.templatetags.static import static
from django.test import AsyncClient, Client
from websockets.asyncio import client as asyncio_client
from websockets.sync.client import connect

from console.data_folder import DataFolderError, prepare, secret
from console.static_version import static_version
from tests.certificates import Authority

ROOT = Path(__file__).resolve().parent.parent.parent


# -- responses ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_content_security_policy_allows_only_own_scripts() -> None:
    headers = Client().get("/login/").headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/queues/default/orders/", "/objects/", "/audit/", "/api/"])
def test_anonymous_request_is_redirected_to_sign_in(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/")


@pytest.mark.django_db
def test_cookies_are_http_only_and_same_site() -> None:
    User.objects.create_user("vera", password="see-everything")
    client = Client()
    client.get("/login/")
    client.post("/login/", {"username": "vera", "password": "see-everything"})
    assert {"headgate_session", "headgate_csrf"} <= set(client.cookies)
    for morsel in client.cookies.values():
        assert morsel["httponly"]
        assert morsel["samesite"] == "Lax"


@pytest.mark.django_db
def test_sign_out_requires_a_post() -> None:
    client = Client()
    client.force_login(User.objects.create_user("vera"))
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/").status_code == 302


@pytest.mark.parametrize("name", ["plotly/plotly.min.js", "console/core/live.js"])
async def test_static_file_has_a_version_in_its_path_and_a_long_cache_lifetime(name: str) -> None:
    url = static(name)
    assert url.startswith("/static/")
    assert url != f"/static/{name}"
    answer = await AsyncClient().get(url)
    assert answer.status_code == 200
    assert "javascript" in answer["Content-Type"]
    assert int(answer["Cache-Control"].split("max-age=")[1].split(",")[0]) > 30 * 24 * 3600
    assert [chunk async for chunk in answer.streaming_content]  # type: ignore[attr-defined]


def test_static_version_follows_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("one")
    first = static_version([tmp_path], ["django"])
    assert static_version([tmp_path], ["django"]) == first
    (tmp_path / "a.js").write_text("two")
    assert static_version([tmp_path], ["django"]) != first


# -- secrets and the first administrator ----------------------------------------------------------------------------


def test_secret_is_generated_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    first = secret(path)
    assert len(first) >= 40
    assert secret(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["secret"]
    assert secret(tmp_path / "other") != first


def test_data_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataFolderError, match=str(tmp_path / "file" / "data")):
        prepare(tmp_path / "file" / "data")


def test_django_secret_is_in_the_data_folder() -> None:
    assert (Path(os.environ["HEADGATE_DATA"]) / "console" / "django.secret").read_text() == settings.SECRET_KEY


@pytest.mark.django_db
def test_first_administrator_gets_a_generated_password_that_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("ensure_admin")
    name, password = capsys.readouterr().out.split()
    assert name == "admin"
    assert User.objects.get(username=name, is_superuser=True).check_password(password)
    call_command("ensure_admin")
    assert capsys.readouterr().out == ""


@pytest.mark.django_db
def test_concurrently_created_first_administrator_keeps_its_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("ensure_admin")
    _, password = capsys.readouterr().out.split()
    monkeypatch.setattr(QuerySet, "exists", lambda _: False)  # as before the other transaction commits
    call_command("ensure_admin")
    assert capsys.readouterr().out == ""
    assert User.objects.get(username="admin").check_password(password)


# -- the process ----------------------------------------------------------------------------------------------------


def manage(tmp_path: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "HEADGATE_DATA": str(tmp_path),
        "HEADGATE_BROKER_CONNECT": "tests.console.standin.connect",
        "HEADGATE_STANDIN_QUEUES": "2",
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    done = manage(tmp_path, "migrate", "-v0")
    _, errors = done.communicate(timeout=300)
    assert done.returncode == 0, errors
    return tmp_path


@pytest.fixture
def web(data: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A web process and its port."""
    process = manage(data, "web", "--port", "0")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        yield process, int(line.rsplit(":", 1)[1].strip().rstrip("/"))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def test_port_in_use_is_reported_in_one_line_with_exit_status_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = manage(tmp_path, "web", "--port", str(port))
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert errors.strip() == f"cannot listen on 127.0.0.1 port {port}: Address already in use"


@pytest.mark.parametrize("command", ["web", "worker", "beat", "history"])
def test_database_without_tables_is_reported_in_one_line(tmp_path: Path, command: str) -> None:
    process = manage(tmp_path, command, *(["--port", "0"] if command == "web" else []))
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert errors.strip() == (
        "CommandError: the console's database has unapplied migrations: run `headgate migrate` first (`headgate up`"
        " does so automatically)"
    )


def get(port: int, path: str, **headers: str) -> int:
    """Return the status code of a GET request."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.request("GET", path, headers=headers)
        return client.getresponse().status


def session_of_admin(data: Path) -> str:
    """Return the session cookie of an administrator."""
    code = (
        "from django.contrib.auth.models import User; from django.test import Client; c = Client();"
        "c.force_login(User.objects.create_superuser('admin')); print(c.cookies['headgate_session'].value)"
    )
    process = manage(data, "shell", "-v0", "-c", code)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return f"headgate_session={out.strip()}"


@pytest.mark.parametrize(
    ("variable", "value", "arguments", "message"),
    [
        ("HEADGATE_DATA", "/proc/none/here", [], "the data folder /proc/none/here cannot be created"),
        ("HEADGATE_BROKER_PORT", "many", [], "HEADGATE_BROKER_PORT is 'many'"),
        ("HEADGATE_BROKER_PORT", "5672", ["--port", "99999"], "--port is 99999"),
    ],
)
def test_invalid_setting_is_reported_in_one_line_with_exit_status_1(
    tmp_path: Path, variable: str, value: str, arguments: list[str], message: str
) -> None:
    process = manage(tmp_path, "web", *arguments, **{variable: value})
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert errors.startswith(message)
    assert len(errors.strip().splitlines()) == 1


def test_sigterm_ends_the_process_within_2_seconds_with_open_websockets(
    data: Path, web: tuple[subprocess.Popen[str], int]
) -> None:
    process, port = web
    origin = f"http://127.0.0.1:{port}"
    cookie = {"Cookie": session_of_admin(data)}
    with connect(f"ws://127.0.0.1:{port}/ws/live/", origin=origin, additional_headers=cookie) as page:  # type: ignore[arg-type]
        page.send('{"watch": "overview"}')
        assert '"type"' in str(page.recv(timeout=10))
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert time.monotonic() - began < 2
    assert process.returncode == 0


async def test_websocket_uses_tls_with_a_certificate(data: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    files = authority.server()
    options = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    process = manage(data, "web", "--port", "0", *options, HEADGATE_HTTPS="1")
    try:
        assert process.stdout is not None
        site = process.stdout.readline().split()[-1].rstrip("/")
        assert site.startswith("https://127.0.0.1:")
        cookie = {"Cookie": session_of_admin(data)}
        url = f"{site.replace('http', 'ws')}/ws/live/"
        trusting = ssl.create_default_context(cafile=str(authority.ca))
        # The synchronous client uses a TLS connection from two threads, which this Python does not support.
        async with (
            asyncio.timeout(10),
            asyncio_client.connect(url, origin=site, additional_headers=cookie, ssl=trusting) as page,
        ):
            await page.send('{"watch": "overview"}')
            assert '"type"' in str(await page.recv())
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.parametrize("https", ["", "1"])
@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("server.pem", None, "HTTPS requires both --tls-certificate and --tls-key"),
        ("none.pem", "server.key", "none.pem and key .*server.key: no such file"),
        ("server.pem", "ca.pem", "server.pem and key .*ca.pem: "),
    ],
)
def test_unusable_certificate_is_reported_in_one_line_with_exit_status_1(
    tmp_path: Path, certificate: str, key: str | None, message: str, https: str
) -> None:
    folder = Authority(tmp_path / "authority").server().certificate.parent
    options = ["--tls-certificate", str(folder / certificate), *(["--tls-key", str(folder / key)] if key else [])]
    process = manage(tmp_path, "web", "--port", "0", *options, HEADGATE_HTTPS=https)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors.count("\n")) == (1, "", 1)
    assert re.search(message if https or key is None else "HEADGATE_HTTPS is not 1", errors), errors


def test_request_for_another_host_is_refused(web: tuple[subprocess.Popen[str], int]) -> None:
    _, port = web
    assert get(port, "/login/") == 200
    assert get(port, "/login/", Host="evil.example") == 400


def test_web_process_loads_the_libraries_of_the_history_with_its_first_page_only(tmp_path: Path) -> None:
    code = """
import sys
import django
django.setup()
import console.management.commands.web, console.asgi, console.urls
print(sorted({"pyspark", "pyarrow", "duckdb", "numpy", "numba", "pandas", "deltalake"} & set(sys.modules)))
"""
    env = os.environ | {"HEADGATE_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
