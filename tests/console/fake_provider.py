"""A small OpenID Connect provider on loopback that can be configured to misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "headgate-console", "the-client-secret"


@lru_cache
def _new_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """The provider. `claims`: of the user who signs in. `wrong`: claims of the token to replace; None removes one.
    `userinfo`: the same for userinfo. `other_key`: signs with an unknown key. `away`: does not respond."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "s-1", "preferred_username": "olga", "email": "olga@example.org"}
        self.wrong: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.other_key = self.away = False
        self.issuer = ""
        self._key = _new_key(1)
        self._codes: dict[str, dict[str, str]] = {}

    def authorize(self, query: dict[str, str]) -> str:
        """Return the redirect URL after the user has signed in."""
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def answer(self, method: str, path: str, given: dict[str, str], bearer: str) -> tuple[int, dict[str, Any]]:
        if self.away:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            ends = {
                "authorization_endpoint": "go",
                "token_endpoint": "token",
                "userinfo_endpoint": "me",
                "jwks_uri": "keys",
            }
            return 200, {"issuer": self.issuer, **{name: f"{self.issuer}/{end}" for name, end in ends.items()}}
        if path == "/keys":
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
            return 200, {"keys": [{**key, "kid": "one", "alg": "RS256", "use": "sig"}]}
        if path == "/token" and method == "POST":
            return self._token(given)
        if path == "/me" and bearer == "Bearer access":
            return 200, {**self.claims, **self.userinfo}
        return 404, {}

    def _token(self, given: dict[str, str]) -> tuple[int, dict[str, Any]]:
        request = self._codes.pop(given.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        if request is None or given.get("client_secret") != SECRET:
            return 400, {"error": "invalid_grant"}
        if (
            challenge.rstrip(b"=").decode() != request["code_challenge"]
            or given["redirect_uri"] != request["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        right = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": request["nonce"],
            **self.claims,
        }
        claims = {name: value for name, value in {**right, **self.wrong}.items() if value is not None}
        key = _new_key(2) if self.other_key else self._key
        token = jwt.encode(claims, key, "RS256", headers={"kid": "one"})
        return 200, {"access_token": "access", "token_type": "Bearer", "id_token": token}


@contextmanager
def running() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", {})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            self._answer("POST", {name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, method: str, given: dict[str, str]) -> None:
            bearer = self.headers.get("Authorization") or ""
            status, body = provider.answer(method, urlsplit(self.path).path, given, bearer)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
