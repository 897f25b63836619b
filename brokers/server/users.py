"""Authentication of the broker's users against the engine's accounts, and the console's own account.

It answers the SASL layer and knows nothing of frames. A name that no user has, or that no password signs in, costs an
attacker the same time, and gets the same kind of answer, as a name with a wrong password.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

from scramp import ScramException
from scramp.utils import saslprep

from brokers.engine.services.accounts import Accounts
from brokers.engine.values.rights import ALL
from brokers.server.config_store import ConfigStore, StoreError
from brokers.server.passwords import ITERATIONS, Passwords, Verifier, fits, text, unpacked
from brokers.server.sqlite_file import make_folder, sync_folder

#: The user of the console.
CONSOLE = "console"

#: Record kind of the key from which salts for unknown users are derived.
_DECOY = "user-decoy"


class Users:
    """See the module. StoreError if the store cannot be read or written."""

    def __init__(self, store: ConfigStore, accounts: Accounts) -> None:
        self._accounts = accounts
        self._console_digest = b""  # of the generated secret
        accounts.credentials = self._passwords = Passwords()
        try:
            decoys = [b64decode(value["key"], validate=True) for kind, _, value in store.load() if kind == _DECOY]
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{store.path} is damaged: {_DECOY}: {error!r}") from error
        self._decoy_key = decoys[0] if decoys else secrets.token_bytes(32)
        if not decoys:
            store.put(_DECOY, "", {"key": text(self._decoy_key)})
            store.commit()

    def check_plain(self, name: str, password: str) -> bool:
        """Return whether the password is correct."""
        try:
            name = saslprep(name)
        except ScramException:
            return False
        if name == CONSOLE and self._console_digest:
            # Generated: no hash makes 256 bits harder to guess, and wrong ones must cost the broker almost nothing.
            return hmac.compare_digest(_digest(password), self._console_digest)
        # Both are evaluated before they are joined: an unknown user takes the same path.
        right = fits(password, self._verifier(name))
        user = self._accounts.users.get(name)
        return right & (user is not None and user.verifier is not None)

    def scram(self) -> Callable[[str], Verifier]:
        """Return the function with which scramp's server side looks up a verifier. For an unknown user it returns one
        that matches no password, with a constant salt, so that names cannot be probed."""
        return self._verifier

    def external(self, subject: str) -> str | None:
        """Return the user of a verified client certificate with this subject."""
        user = self._accounts.with_subject(subject)
        return user.name if user else None

    def ensure_console_user(self, secret_path: Path) -> None:
        """Ensure that the user `console` exists with all permissions and that `secret_path` (0600) holds its secret,
        which is generated when the file or the user is missing or they do not fit. StoreError if it cannot be
        written."""
        try:
            secret = secret_path.read_text(encoding="utf-8").strip()
            os.chmod(secret_path, 0o600)
        except FileNotFoundError:
            secret = ""
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {secret_path}: {error}") from error
        why = (
            f"user {CONSOLE} is the console's own: for another password delete {secret_path} and start the broker again"
        )
        self._accounts.reserved[CONSOLE] = why
        if secret and self._accounts.rights(CONSOLE) == ALL and self.check_plain(CONSOLE, secret):
            self._console_digest = _digest(secret)
            return
        secret = self._passwords.generate()
        _write_private(secret_path, secret + "\n")
        # After a crash in between, the file does not match and both are created again.
        self._accounts.put_own(CONSOLE, self._passwords.verifier(secret), ALL, why)
        self._console_digest = _digest(secret)

    def _verifier(self, name: str) -> Verifier:
        user = self._accounts.users.get(name)
        # Computed for every name, so that an unknown name takes no longer.
        decoy = hmac.digest(self._decoy_key, name.encode(), "sha512")
        record = user.verifier if user else None
        return unpacked(record) if record is not None else (decoy[:32], decoy[32:], decoy[32:], ITERATIONS)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _write_private(path: Path, content: str) -> None:
    """Replace the file atomically; it is readable by its owner only at every moment."""
    draft = path.with_name(path.name + ".new")
    try:
        make_folder(path.parent)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
