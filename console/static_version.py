"""A name for the present content of all static files, so that their URLs can be cached for ever.

It is a part of the path (`/static/<version>/console/page.js`) and not of each file's name: the modules of a page
import each other by relative paths, and all of them get new URLs when one changes, without a collecting step. It lies
beside `settings.py`, which alone imports it, before there is a Django to be configured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path


def static_version(folders: Iterable[Path], packages: Iterable[str]) -> str:
    """Hash the content of the files in `folders` and the versions of the `packages` that bring their own files."""
    digest = hashlib.sha256()
    for package in packages:
        digest.update(f"{package} {version(package)}\n".encode())
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
