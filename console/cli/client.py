"""HTTP client of `/api/v1/`. Errors become `Problem`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import requests
from requests.auth import AuthBase

from console.cli.credentials import Credentials
from console.cli.problems import NOT_ALLOWED, REFUSED, UNREACHABLE, Problem

#: Timeouts, in seconds: to connect, and to wait for a response.
_TIMEOUT = (5.0, 60.0)


class _Bearer(AuthBase):
    """Authentication by token. As `auth` of the session, so that an entry in ~/.netrc does not replace it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Client:
    """Client of one console. `broker`: slug of the broker of all requests; "": the first in the configuration."""

    def __init__(self, credentials: Credentials, broker: str = "", timeout: tuple[float, float] = _TIMEOUT) -> None:
        self.url = credentials.url
        self.broker = broker
        self._timeout = timeout
        self._session = requests.Session()
        self._session.auth = _Bearer(credentials.token)
        self._session.headers["User-Agent"] = "headgate"

    def get(self, path: str, **query: Any) -> Any:
        """GET `path`, relative to /api/v1/, and return the JSON body. Raises Problem."""
        return self._request("GET", path, query, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST a JSON body to `path` and return the JSON body of the response. Raises Problem."""
        return self._request("POST", path, {}, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """PATCH `path` with a JSON body and return the JSON body of the response. Raises Problem."""
        return self._request("PATCH", path, {}, body)

    def delete(self, path: str) -> None:
        """DELETE `path`. Raises Problem."""
        self._request("DELETE", path, {}, None)

    def download(self, path: str, file: BinaryIO, **query: Any) -> None:
        """GET `path` and write the body of the response to a file. Raises Problem, also if it ends early."""
        with self._sent("GET", path, query, None, stream=True) as response:
            if not response.ok:
                self._read(response)
            try:
                for part in response.iter_content(1 << 16):
                    file.write(part)
            except requests.RequestException as error:
                raise Problem(f"the file is not complete: {_cause(error)}", UNREACHABLE) from None

    def _request(self, method: str, path: str, query: Mapping[str, Any], body: Mapping[str, Any] | None) -> Any:
        return self._read(self._sent(method, path, query, body))

    def _sent(
        self, method: str, path: str, query: Mapping[str, Any], body: Mapping[str, Any] | None, *, stream: bool = False
    ) -> requests.Response:
        parameters = {name: value for name, value in query.items() if value not in ("", None, (), [])}
        if self.broker:
            parameters["broker"] = self.broker
        url = f"{self.url}/api/v1/{path}"
        try:
            return self._session.request(
                method, url, params=parameters, json=body, timeout=self._timeout, allow_redirects=False, stream=stream
            )
        except requests.exceptions.SSLError as error:
            raise Problem(f"{self.url}: its certificate is not trusted: {_cause(error)}", UNREACHABLE) from None
        except requests.RequestException as error:
            done = "" if method == "GET" else " It is unknown whether the change was made: check before you retry."
            raise Problem(f"{self.url} does not respond: {_cause(error)}.{done}", UNREACHABLE) from None

    def _read(self, response: requests.Response) -> Any:
        try:
            body = response.json() if response.content else None
        except ValueError:
            body = None
        if response.ok and (body is not None or not response.content) and not response.is_redirect:
            return body
        sentence = _sentence(body) or f"{self.url} responded with {response.status_code} {response.reason}"
        if response.status_code in (401, 403):
            raise Problem(sentence, NOT_ALLOWED)
        if response.status_code >= 500:
            raise Problem(sentence, UNREACHABLE)
        if body is None:
            raise Problem(f"{self.url} is not a Headgate console: {sentence}", UNREACHABLE)
        raise Problem(sentence, REFUSED)


def _sentence(body: Any) -> str:
    """Return the error messages of a JSON body; empty if there are none."""
    if not isinstance(body, dict):
        return ""
    if isinstance(body.get("detail"), str):
        return str(body["detail"])
    wrong = [(field, text) for field, each in body.items() for text in (each if isinstance(each, list) else [each])]
    return "; ".join(
        text if not field or field in text else f"{field}: {text}" for field, text in wrong if isinstance(text, str)
    )


def _cause(error: BaseException) -> str:
    """Return the message of the innermost exception, without the library's prefix."""
    while True:
        inner = error.__cause__ or error.__context__ or getattr(error.args[0] if error.args else None, "reason", None)
        if not isinstance(inner, BaseException) or inner is error:
            return str(error).rpartition(": ")[2].rstrip(".") or type(error).__name__
        error = inner
