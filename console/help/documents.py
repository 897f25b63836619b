"""The documents: files of the project, in the package or linked into it, with the names by which they link each other.

They are read once in a process. `home`: the path in the repository, to which a file's links are relative.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from console.help.rendering import Page, Places, render

_PACKAGES = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Document:
    slug: str
    title: str
    home: str
    file: str = ""  # where the package has it, if not at `home`

    @property
    def path(self) -> Path:
        return _PACKAGES / (self.file or self.home)


DOCUMENTS = (
    Document("start", "Start", "README.md", "console/START.md"),
    Document("terms", "Terms", "console/help/TERMS.md"),
    Document("flow-control", "Rules of flow control", "brokers/DOMAIN.md"),
    Document("console", "The console", "console/README.md"),
    Document("broker", "The broker", "brokers/README.md"),
    Document("history", "The history", "console/history/README.md"),
    Document("operation", "Installation, backups, upgrades", "console/deploy/README.md"),
    Document("changes", "Changelog", "console/CHANGELOG.md"),
)
#: The pictures of the documents, and where they are among the static files.
PICTURES = (".readme/", "help/")


def document_of(slug: str) -> Document | None:
    return next((each for each in DOCUMENTS if each.slug == slug), None)


@cache
def page_of(document: Document, static: str) -> Page:
    """Return the document as HTML. `static`: the URL of the static files."""
    return render(document.path.read_text(encoding="utf-8"), places_of(document, static))


def places_of(document: Document, static: str) -> Places:
    """Return where the links of a document lead: to other documents, or nowhere if the console does not have them."""
    pages = {each.home: f"/help/{each.slug}/" for each in DOCUMENTS}

    def link(target: str) -> str | None:
        path, sign, anchor = target.partition("#")
        if not path:
            return target
        found = pages.get(_from(document, path))
        return None if found is None else f"{found}{sign}{anchor}"

    def picture(target: str) -> str | None:
        path = _from(document, target)
        return f"{static}{PICTURES[1]}{path.removeprefix(PICTURES[0])}" if path.startswith(PICTURES[0]) else None

    return Places(link, picture)


def _from(document: Document, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(document.home), path))
