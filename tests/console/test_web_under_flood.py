"""A web process comes to its broker, and shows it, while others from its address try wrong passwords."""

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

#: On a machine that is slow, and has a flood to serve.
WITHIN = 120.0


class Web:
    """A web process of its own, as an administrator sees it."""

    def __init__(self, port: int, cookie: str) -> None:
        self.site, self.cookie = f"http://127.0.0.1:{port}", cookie

    def get(self, path: str) -> str:
        asked = urllib.request.Request(f"{self.site}{path}", headers={"Cookie": self.cookie})
        with urllib.request.urlopen(asked, timeout=WITHIN) as answer:
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
def test_a_web_process_connects_and_reconnects_and_serves_pages_during_a_flood(data: Path) -> None:
    cookie = session_of_admin(data)
    with broker_process(data / "broker", "--demo") as (process, port), flood(port, 200) as go_on:
        go_on()
        web = manage(data, "web", "--port", "0", HEADGATE_BROKER_CONNECT="", HEADGATE_BROKER_PORT=str(port))
        try:
            assert web.stdout is not None
            seen = Web(int(web.stdout.readline().rsplit(":", 1)[1].strip().rstrip("/")), cookie)
            seen.until(connected=True)
            process.kill()
            process.wait()
            seen.until(connected=False)
            with broker_process(data / "broker", "--port", str(port)):
                go_on()
                seen.until(connected=True)
                for path in ("/", "/objects/", "/timeline/", "/policies/"):
                    assert "</html>" in seen.get(path), path
                objects = json.loads(seen.get("/api/v1/brokers/local/objects/?type=VirtualHost"))
                assert "default" in json.dumps(objects)
                go_on()  # so all of this was in the middle of it
        finally:
            web.kill()
            web.communicate(timeout=30)
