"""A user with a browser, from the view of web processes: cookies, forms, calls of the API and a WebSocket."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from typing import Any

from websockets.sync.client import ClientConnection, connect


class Person:
    """`origin`: the web process that they use now; they may go to another with the same cookies."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        # Names differ by port only, which cookies do not look at.
        self._cookies = CookieJar()
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies)).open

    def at(self, origin: str) -> Person:
        self.origin = origin
        return self

    def sign_in(self, name: str, password: str) -> int:
        """The status of the answer: 200 also for the form that says what was wrong; 429 for one too many."""
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.text("/login/"))
        assert token, "the login page has no CSRF token"
        form = {"csrfmiddlewaretoken": token[1], "username": name, "password": password}
        return self._ask("/login/", urllib.parse.urlencode(form).encode(), {"Referer": f"{self.origin}/login/"})[0]

    def text(self, path: str) -> str:
        return self._ask(path)[1]

    def status(self, path: str) -> int:
        return self._ask(path)[0]

    def get(self, path: str) -> Any:
        status, body = self._ask(f"/api/v1/{path}")
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, **body: Any) -> Any:
        token = next(cookie.value for cookie in self._cookies if cookie.name == "headgate_csrf")
        headers = {"Content-Type": "application/json", "X-CSRFToken": token or "", "Origin": self.origin}
        status, answer = self._ask(f"/api/v1/{path}", json.dumps(body).encode(), headers)
        assert status in (200, 201, 202), answer
        return json.loads(answer)

    def live(self) -> ClientConnection:
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._cookies)
        url = self.origin.replace("http", "ws", 1) + "/ws/live/"
        return connect(url, additional_headers={"Cookie": cookies}, origin=self.origin)  # type: ignore[arg-type]

    def _ask(self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, str]:
        request = urllib.request.Request(self.origin + path, body, headers or {})
        try:
            with self._open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()
