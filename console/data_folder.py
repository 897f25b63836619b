"""The data folder of the installation, and the secrets that are generated in it.

Secrets are generated once, by the first process, and never have a default in code. Only `settings.py` imports this
module, before Django is configured.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path


class DataFolderError(Exception):
    """The data folder cannot be used. The message is one line that names it."""


def prepare(folder: Path) -> Path:
    """Create the folder if it is missing and return its absolute path. Raises DataFolderError."""
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DataFolderError(f"the data folder {folder} cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DataFolderError(f"the data folder {folder} cannot be written")
    return folder


def database(path: Path) -> Path:
    """Return the path of the console's database. Raises DataFolderError if the file or its folder is not writable."""
    for each, needed in ((path.parent, os.W_OK | os.X_OK), (path, os.W_OK)):
        if each.exists() and not os.access(each, needed):
            raise DataFolderError(f"the console's database {path} cannot be written: {each} is read-only for this user")
    return path


def secret(path: Path) -> str:
    """Return the secret in the file, generating it (mode 0600) if it is missing. Raises DataFolderError."""
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written to another file and then linked: of two processes one wins, and none reads a partial file.
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            try:
                with os.fdopen(handle, "w") as file:
                    file.write(secrets.token_urlsafe(48))
                with suppress(FileExistsError):
                    os.link(name, path)
            finally:
                os.unlink(name)
        return path.read_text().strip()
    except OSError as error:
        raise DataFolderError(f"the secret {path} cannot be stored: {error.strerror}") from error
