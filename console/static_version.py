"""A version of all static files by their content, so that their URLs can be cached without limit.

It is part of the path (`/static/<version>/console/page.js`), not of each file name: the modules of a page import each
other by relative paths, and all get new URLs when one changes, without a collecting step. Only `settings.py` imports
this module, before Django is configured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path


def static_version(folders: Iterable[Path], packages: Iterable[str]) -> str:
    """Return a hash of the files in `folders` and the versions of `packages` that have static files."""
    digest = hashlib.sha256()
    for package in packages:
        digest.update(f"{package} {version(package)}\n".encode())
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
