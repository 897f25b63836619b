"""Terms of the pages: each has a section of `TERMS.md`, of two sentences and a link."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from console.help.documents import document_of, places_of
from console.help.rendering import anchor_of, render


@dataclass(frozen=True, slots=True)
class Term:
    name: str
    anchor: str
    html: str


@lru_cache(maxsize=1)
def terms() -> Mapping[str, Term]:
    """Return the terms by their anchors, such as `resume-level`."""
    document = document_of("terms")
    assert document is not None
    places = places_of(document, "")
    parts = re.split(r"^## (.+)$", document.path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        anchor_of(name): Term(name, anchor_of(name), render(text.strip(), places).html)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
