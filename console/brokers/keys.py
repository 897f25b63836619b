"""The keys of the installation that encrypt the passwords of brokers and the secrets of alert receivers: a file, mode
0600, newest key first.

The newest key encrypts, every one decrypts; more than one is there only while `rotate_broker_key` re-encrypts.
Processes on several hosts need the same file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class KeyMissing(Exception):
    """The secret was encrypted with a key that the file no longer has, or the file cannot be used. The message is a
    sentence."""


def encrypt(password: str) -> str:
    """Encrypt with the newest key, which is generated if there is none. Call it and store the result while `locked`.
    Raises KeyMissing."""
    return _fernet().encrypt(password.encode()).decode()


def decrypt(encrypted: str) -> str:
    """Raises KeyMissing."""
    try:
        return _fernet().decrypt(encrypted.encode()).decode()
    except InvalidToken:
        raise KeyMissing(f"the stored secret cannot be decrypted with the keys in {_path()}: enter it again") from None


def rotated(encrypted: str) -> str:
    """Return the same password, encrypted with the newest key. Raises KeyMissing."""
    try:
        return _fernet().rotate(encrypted.encode()).decode()
    except InvalidToken:
        raise KeyMissing(f"a password cannot be decrypted with the keys in {_path()}") from None


def add_key() -> None:
    """Put a new key before the others. Call it while `locked`."""
    _write([Fernet.generate_key().decode(), *_lines()])


def drop_old_keys() -> None:
    """Remove every key but the newest. Call it while `locked`, when no password needs them."""
    _write(_lines()[:1])


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Exclude a rotation of the key, from the encryption of a password until it is stored. Raises KeyMissing."""
    path = _path().with_suffix(".lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise KeyMissing(f"{path} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _fernet() -> MultiFernet:
    lines = _lines()
    if not lines:
        with contextlib.suppress(FileExistsError):
            _write([Fernet.generate_key().decode()], replace=False)
        lines = _lines()
    try:
        return MultiFernet([Fernet(line) for line in lines])
    except ValueError:
        raise KeyMissing(f"{_path()} has a line that is no key: restore the file") from None


def _path() -> Path:
    return Path(settings.HEADGATE_BROKER_KEYS)


def _lines() -> list[str]:
    try:
        return _path().read_text().split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KeyMissing(f"{_path()} cannot be read: {error.strerror}") from None


def _write(keys: list[str], *, replace: bool = True) -> None:
    """Write to another file first: no process reads a partial one, and of two that generate a key one wins."""
    path = _path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write("\n".join(keys) + "\n")
                file.flush()
                os.fsync(file.fileno())
            if replace:
                Path(name).rename(path)
            else:
                os.link(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise KeyMissing(f"{path} cannot be written: {error.strerror}") from None
