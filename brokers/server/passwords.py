"""SCRAM-SHA-256 verifiers of passwords (RFC 5802, RFC 7677), which the engine's accounts store instead of passwords."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

#: RFC 7677's minimum. A PLAIN sign-in is checked in the broker's loop, where more would delay all messages, and
#: generated secrets have 256 bits, which no number of iterations makes harder to guess.
ITERATIONS = 4096

#: Maximum length of a password, in characters: more would not fit into its SASL frame.
MAX_PASSWORD = 1024

#: A user's values for scramp's server side: salt, stored key, server key, iterations.
Verifier = tuple[bytes, bytes, bytes, int]

_MECHANISM = ScramMechanism("SCRAM-SHA-256")


class Passwords:
    """Implements `Credentials` for the engine's accounts."""

    def prepare(self, name: str) -> str:
        try:
            return str(saslprep(name))
        except ScramException:
            raise ValueError(f"user {name!r}: the name has a character that is not allowed") from None

    def verifier(self, password: str) -> dict[str, Any]:
        try:
            prepared = saslprep(password)
        except ScramException:
            raise ValueError("the password has a character that is not allowed") from None
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
    """Return whether the password matches the verifier, in constant time."""
    salt, stored_key, _server_key, iterations = verifier
    try:
        prepared = saslprep(password)
    except ScramException:
        prepared = ""  # matches no verifier
    salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key)


def text(data: bytes) -> str:
    return b64encode(data).decode()
