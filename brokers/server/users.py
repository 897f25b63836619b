"""Who may sign in to the broker, kept as SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677): never the password.

It answers the SASL layer and knows nothing of frames. A name that nobody has costs an attacker the same time, and gets
the same kind of answer, as a name with a wrong password.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

from brokers.server.config_store import ConfigStore, StoreError

#: What a user may be allowed to do.
RIGHTS = frozenset({"publish", "consume", "manage"})

#: The user that the console signs in as.
CONSOLE = "console"

#: RFC 7677's least. A PLAIN sign-in is checked within the broker's loop, where more would hold up everybody's messages,
#: and the generated secrets have 256 bits, which no number of iterations makes harder to guess.
ITERATIONS = 4096

#: Record kinds in the store.
_USER, _DECOY = "user", "user-decoy"

#: What scramp's server side wants to know of a user: salt, stored key, server key, iterations.
Verifier = tuple[bytes, bytes, bytes, int]

_MECHANISM = ScramMechanism("SCRAM-SHA-256")


@dataclass(frozen=True, slots=True)
class _User:
    verifier: Verifier
    rights: frozenset[str]


class Users:
    """The users in `store`. Changes are committed at once; StoreError if that fails."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._users: dict[str, _User] = {}
        decoy: bytes | None = None
        for kind, key, value in store.load():
            try:
                if kind == _USER:
                    self._users[key] = _from_record(value)
                elif kind == _DECOY:
                    decoy = b64decode(value["key"], validate=True)
            except (KeyError, TypeError, ValueError) as error:
                raise StoreError(f"{store.path} is damaged: user {key}: {error!r}") from error
        if decoy is None:
            decoy = secrets.token_bytes(32)
            store.put(_DECOY, "", {"key": _text(decoy)})
            store.commit()
        self._decoy_key = decoy

    def add(self, name: str, password: str, rights: Iterable[str] = ("publish", "consume")) -> None:
        """Add a user or give it another password and rights. ValueError, naming what is wrong, if the name, the
        password or a right cannot be."""
        try:
            name = saslprep(name)
            prepared = saslprep(password)
        except ScramException as error:
            raise ValueError(f"user {name!r}: name or password has a character that may not be used") from error
        if not name or not prepared:
            raise ValueError(f"user {name!r}: name and password must not be empty")
        rights = frozenset(rights)
        if unknown := rights - RIGHTS:
            raise ValueError(f"user {name!r}: {', '.join(sorted(unknown))} is not one of {', '.join(sorted(RIGHTS))}")
        user = _User(_MECHANISM.make_auth_info(password, iteration_count=ITERATIONS), rights)
        self._store.put(_USER, name, _to_record(user))
        self._store.commit()
        self._users[name] = user

    def remove(self, name: str) -> None:
        """Remove a user; KeyError if there is none of that name. Connections it has open are not touched."""
        if name not in self._users:
            raise KeyError(name)
        self._store.remove(_USER, name)
        self._store.commit()
        del self._users[name]

    def names(self) -> list[str]:
        return sorted(self._users)

    def rights(self, name: str) -> frozenset[str]:
        """What the user may do; nothing if there is no such user (any more)."""
        user = self._users.get(name)
        return user.rights if user else frozenset()

    def check_plain(self, name: str, password: str) -> bool:
        """Whether this is the user's password. Takes as long for a user that does not exist."""
        try:
            name, password = saslprep(name), saslprep(password)
        except ScramException:
            return False
        salt, stored_key, _server_key, iterations = self._verifier(name)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        # Both are evaluated before they are joined: an unknown user takes the same path.
        right = hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key)
        return right & (name in self._users)

    def scram(self) -> Callable[[str], Verifier]:
        """The function that scramp's server side asks for a user's verifier. For an unknown user it gives one that no
        password fits, with a salt that stays the same, so that names cannot be found out."""
        return self._verifier

    def ensure_console_user(self, secret_path: Path) -> None:
        """See to it that the user `console` exists with all rights and that `secret_path` (0600) holds its secret,
        which is generated when the file or the user is missing or they do not fit. StoreError if it cannot be
        written."""
        try:
            secret = secret_path.read_text(encoding="utf-8").strip()
            os.chmod(secret_path, 0o600)
        except FileNotFoundError:
            secret = ""
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {secret_path}: {error}") from error
        if secret and self.rights(CONSOLE) == RIGHTS and self.check_plain(CONSOLE, secret):
            return
        secret = secrets.token_urlsafe(32)
        # The user first: after a crash in between, the file does not fit and both are made anew.
        self.add(CONSOLE, secret, RIGHTS)
        _write_private(secret_path, secret + "\n")

    def _verifier(self, name: str) -> Verifier:
        user = self._users.get(name)
        # Worked out for everybody, so that it takes no longer for an unknown name.
        decoy = hmac.digest(self._decoy_key, name.encode(), "sha512")
        return user.verifier if user else (decoy[:32], decoy[32:], decoy[32:], ITERATIONS)


def _to_record(user: _User) -> dict[str, Any]:
    salt, stored_key, server_key, iterations = user.verifier
    return {
        "mechanism": "SCRAM-SHA-256",
        "salt": _text(salt),
        "stored_key": _text(stored_key),
        "server_key": _text(server_key),
        "iterations": iterations,
        "rights": sorted(user.rights),
    }


def _from_record(value: Mapping[str, Any]) -> _User:
    salt, stored_key, server_key = (b64decode(value[k], validate=True) for k in ("salt", "stored_key", "server_key"))
    return _User((salt, stored_key, server_key, int(value["iterations"])), frozenset(value["rights"]) & RIGHTS)


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _write_private(path: Path, text: str) -> None:
    """Replace the file as a whole, readable by its owner only at every moment."""
    draft = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
