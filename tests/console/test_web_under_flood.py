"""A web process connects to its broker and serves pages while clients of the same address try wrong passwords."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import pytest

from tests.amqp.test_broker_command import broker_process
from tests.amqp.test_sign_in_flood import flood
from tests.console.test_web import data, manage, session_of_admin

__all__ = ["data"]  # a fixture

#: Time limit on a slow machine during a flood, s.
WITHIN = 120.0


class Web:
    """A separate web process, used by an administrator."""

    def __init__(self, port: int, cookie: str) -> None:
        self.site, self.cookie = f"http://127.0.0.1:{port}", cookie

    def get(self, path: str) -> str:
        request = urllib.request.Request(f"{self.site}{path}", headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=WITHIN) as answer:
            return str(answer.read().decode())

    def until(self, *, connected: bool) -> None:
        began = time.monotonic()
        while True:
            (broker,) = json.loads(self.get("/api/v1/brokers/"))
            if broker["connected"] == connected:
                return
            assert time.monotonic() - began < WITHIN, broker
            time.sleep(0.1)


@pytest.mark.domain("8 sign-in")
@pytest.mark.timeout(600)
def test_web_process_connects_and_reconnects_and_serves_pages_during_a_flood(data: Path) -> None:
    cookie = session_of_admin(data)
    with broker_process(data / "broker", "--demo") as (process, port), flood(port, 200) as go_on:
        go_on()
        web = manage(data, "web", "--port", "0", HEADGATE_BROKER_CONNECT="", HEADGATE_BROKER_PORT=str(port))
        try:
            assert web.stdout is not None
            site = Web(int(web.stdout.readline().rsplit(":", 1)[1].strip().rstrip("/")), cookie)
            site.until(connected=True)
            process.kill()
            process.wait()
            site.until(connected=False)
            with broker_process(data / "broker", "--port", str(port)):
                go_on()
                site.until(connected=True)
                for path in ("/", "/objects/", "/timeline/", "/policies/"):
                    assert "</html>" in site.get(path), path
                objects = json.loads(site.get("/api/v1/brokers/local/objects/?type=VirtualHost"))
                assert "default" in json.dumps(objects)
                go_on()  # the flood lasted during all of this
        finally:
            web.kill()
            web.communicate(timeout=30)
