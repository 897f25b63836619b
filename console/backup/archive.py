"""The file of a backup: a compressed tar archive that begins with its format and ends with a manifest.

The manifest names every file with its length and SHA-256, so that an archive that was cut off, or changed anywhere, is
not taken for a whole one. Names are paths below the data folder.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

FORMAT = 1
_FIRST, _LAST = "headgate-backup.json", "headgate-manifest.json"
_BLOCK = 1 << 20


class BackupError(Exception):
    """A backup cannot be made or restored. The message is one line with the reason."""


class Writer:
    """A context that writes an archive to `file`. `complete` ends it: without that, no reader accepts it. `look` is
    called with each block of a file."""

    def __init__(self, file: IO[bytes], look: Callable[[], None] = lambda: None) -> None:
        self.look = look
        self._packed = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, filename="", mtime=0)
        self._tar = tarfile.open(fileobj=self._packed, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._files: dict[str, Any] = {}
        self._put(_FIRST, json.dumps({"format": FORMAT}).encode())

    def add(self, name: str, path: Path) -> None:
        """Add a file as long as it is now. Raises OSError, FileNotFoundError before anything of it was added."""
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            hashing = _Hashing(file, size, path, self.look)
            self._tar.addfile(_member(name, size), hashing)  # type: ignore[arg-type]
        self._files[name] = {"size": size, "sha256": hashing.digest}

    def add_bytes(self, name: str, content: bytes) -> None:
        self._put(name, content)
        self._files[name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def complete(self, facts: dict[str, Any]) -> None:
        """Write the manifest with these facts, and the end of the archive."""
        self._put(_LAST, json.dumps({**facts, "files": self._files}, ensure_ascii=False).encode())
        self._tar.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._packed.close()

    def _put(self, name: str, content: bytes) -> None:
        self._tar.addfile(_member(name, len(content)), io.BytesIO(content))


def extract(file: IO[bytes], folder: Path) -> dict[str, Any]:
    """Extract an archive into the folder, verify it, and return its manifest. Raises BackupError, OSError."""
    with _damage_named(), gzip.GzipFile(fileobj=file, mode="rb") as packed:
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            found: dict[str, Any] = {}
            manifest: dict[str, Any] | None = None
            for number, member in enumerate(tar):
                content = tar.extractfile(member) if member.isfile() else None
                if content is None or manifest is not None:
                    raise BackupError(f"it is damaged: {member.name!r} is not a file of a backup")
                if number == 0:
                    _check_format(member.name, content)
                elif member.name == _LAST:
                    manifest = json.load(content)
                elif member.name in found:
                    raise BackupError(f"it is damaged: {member.name!r} is in it twice")
                else:
                    found[member.name] = _store(content, _place(folder, member.name))
        while packed.read(_BLOCK):  # the rest has the checksum of everything
            pass
    if manifest is None:
        raise BackupError("it is incomplete: its end is missing")
    if manifest.get("files") != found:
        wrong = sorted(
            name for name in {*manifest.get("files", {}), *found} if manifest["files"].get(name) != found.get(name)
        )
        raise BackupError(f"it is damaged: {wrong[0] if wrong else 'its list of files'} is not as it was written")
    return manifest


@contextmanager
def _damage_named() -> Iterator[None]:
    try:
        yield
    except EOFError:
        raise BackupError("it is incomplete: its end is missing") from None
    except (gzip.BadGzipFile, zlib.error, tarfile.TarError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BackupError(f"it is damaged, or not a backup of Headgate ({error})") from None


def _check_format(name: str, content: IO[bytes]) -> None:
    if name != _FIRST:
        raise BackupError("it is not a backup of Headgate")
    if (found := json.load(content).get("format")) != FORMAT:
        raise BackupError(f"it was made by a later release: its format is {found}, this release knows {FORMAT}")


def _place(folder: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise BackupError(f"it is damaged: {name!r} is not a name in a data folder")
    return folder.joinpath(*parts)


def _store(content: IO[bytes], path: Path) -> dict[str, Any]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while block := content.read(_BLOCK):
            digest.update(block)
            size += out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return {"size": size, "sha256": digest.hexdigest()}


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


class _Hashing:
    """The first `size` bytes of a file; hashed as they are read. A file that is shorter than it was is an error."""

    def __init__(self, file: IO[bytes], size: int, path: Path, look: Callable[[], None]) -> None:
        self._look = look
        self._file = file
        self._left = size
        self._path = path
        self._sha = hashlib.sha256()

    def read(self, size: int) -> bytes:
        self._look()
        block = self._file.read(min(size, self._left))
        if len(block) < min(size, self._left):
            raise BackupError(f"{self._path} was changed while it was read")
        self._left -= len(block)
        self._sha.update(block)
        return block

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()
