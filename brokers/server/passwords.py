"""Passwords to SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677), as the engine's accounts keep them: never the password."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

#: RFC 7677's least. A PLAIN sign-in is checked within the broker's loop, where more would hold up all messages,
#: and the generated secrets have 256 bits, which no number of iterations makes harder to guess.
ITERATIONS = 4096

#: The longest password, in characters: more would not fit the SASL frame it comes in.
MAX_PASSWORD = 1024

#: What scramp's server side wants to know of a user: salt, stored key, server key, iterations.
Verifier = tuple[bytes, bytes, bytes, int]

_MECHANISM = ScramMechanism("SCRAM-SHA-256")


class Passwords:
    """What the engine's accounts ask for (`Credentials`)."""

    def prepare(self, name: str) -> str:
        try:
            return str(saslprep(name))
        except ScramException:
            raise ValueError(f"user {name!r}: the name has a character that may not be used") from None

    def verifier(self, password: str) -> dict[str, Any]:
        try:
            prepared = saslprep(password)
        except ScramException:
            raise ValueError("the password has a character that may not be used") from None
        if not prepared:
            raise ValueError("the password must not be empty")
        if len(prepared) > MAX_PASSWORD:
            raise ValueError(f"the password has more than {MAX_PASSWORD:,} characters")
        salt, stored_key, server_key, iterations = _MECHANISM.make_auth_info(password, iteration_count=ITERATIONS)
        return {
            "mechanism": "SCRAM-SHA-256",
            "salt": text(salt),
            "stored_key": text(stored_key),
            "server_key": text(server_key),
            "iterations": iterations,
        }

    def generate(self) -> str:
        return secrets.token_urlsafe(32)


def unpacked(record: Mapping[str, Any]) -> Verifier:
    """Raises KeyError, TypeError or ValueError if the record is damaged."""
    salt, stored_key, server_key = (b64decode(record[k], validate=True) for k in ("salt", "stored_key", "server_key"))
    return salt, stored_key, server_key, int(record["iterations"])


def fits(password: str, verifier: Verifier) -> bool:
    """Whether it is the password that the verifier was made from; takes as long either way."""
    salt, stored_key, _server_key, iterations = verifier
    try:
        prepared = saslprep(password)
    except ScramException:
        prepared = ""  # which no verifier is made from
    salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key)


def text(data: bytes) -> str:
    return b64encode(data).decode()
