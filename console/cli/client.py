"""Questions to `/api/v1/`, and its refusals as problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import requests
from requests.auth import AuthBase

from console.cli.credentials import Credentials
from console.cli.problems import NOT_ALLOWED, REFUSED, UNREACHABLE, Problem

#: Seconds to connect, and to answer.
_PATIENCE = (5.0, 60.0)
_PAGE = 500


class _Bearer(AuthBase):
    """As `auth`, so that no entry in ~/.netrc takes the token's place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Client:
    """One console. `broker`: the slug of the one that questions are about; "": the first one."""

    def __init__(self, credentials: Credentials, broker: str = "", patience: tuple[float, float] = _PATIENCE) -> None:
        self.url = credentials.url
        self.broker = broker
        self._patience = patience
        self._session = requests.Session()
        self._session.auth = _Bearer(credentials.token)
        self._session.headers["User-Agent"] = "headgate"

    def get(self, path: str, **query: Any) -> Any:
        """`path` below /api/v1/. Raises Problem."""
        return self._ask("GET", path, query, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Raises Problem."""
        return self._ask("POST", path, {}, body)

    def every(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The rows of all pages of a list."""
        number = 1
        while True:
            page = self.get(path, **query, page=number, page_size=_PAGE)
            yield from page["results"]
            if number * _PAGE >= page["count"] or not page["results"]:
                return
            number += 1

    def _ask(self, method: str, path: str, query: Mapping[str, Any], body: Mapping[str, Any] | None) -> Any:
        asked = {name: value for name, value in query.items() if value not in ("", None, (), [])}
        if self.broker:
            asked["broker"] = self.broker
        url = f"{self.url}/api/v1/{path}"
        try:
            answer = self._session.request(
                method, url, params=asked, json=body, timeout=self._patience, allow_redirects=False
            )
        except requests.exceptions.SSLError as error:
            raise Problem(f"{self.url}: its certificate is not trusted: {_cause(error)}", UNREACHABLE) from None
        except requests.RequestException as error:
            done = "" if method == "GET" else " Whether anything was changed is unknown: look before you try again."
            raise Problem(f"{self.url} does not answer: {_cause(error)}.{done}", UNREACHABLE) from None
        return self._read(answer)

    def _read(self, answer: requests.Response) -> Any:
        try:
            told = answer.json() if answer.content else None
        except ValueError:
            told = None
        if answer.ok and (told is not None or not answer.content) and not answer.is_redirect:
            return told
        sentence = _sentence(told) or f"{self.url} answered with {answer.status_code} {answer.reason}"
        if answer.status_code in (401, 403):
            raise Problem(sentence, NOT_ALLOWED)
        if answer.status_code >= 500:
            raise Problem(sentence, UNREACHABLE)
        if told is None:
            raise Problem(f"{self.url} is no console of Headgate: {sentence}", UNREACHABLE)
        raise Problem(sentence, REFUSED)


def _sentence(told: Any) -> str:
    if not isinstance(told, dict):
        return ""
    if isinstance(told.get("detail"), str):
        return str(told["detail"])
    wrong = [text for each in told.values() for text in (each if isinstance(each, list) else [each])]
    return "; ".join(text for text in wrong if isinstance(text, str))


def _cause(error: BaseException) -> str:
    """What went wrong at the bottom of it, without the library's own words around it."""
    while True:
        inner = error.__cause__ or error.__context__ or getattr(error.args[0] if error.args else None, "reason", None)
        if not isinstance(inner, BaseException) or inner is error:
            return str(error).rpartition(": ")[2].rstrip(".") or type(error).__name__
        error = inner
