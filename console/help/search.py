"""A search in the sections of all documents: those with every word, those with a word in the heading first."""

from __future__ import annotations

from dataclasses import dataclass

from console.help.documents import DOCUMENTS, Document, page_of
from console.help.rendering import Section

#: Results at most, and characters of a section's text that are shown around the first word that was found.
MOST, AROUND = 30, 110


@dataclass(frozen=True, slots=True)
class Hit:
    """A section, and a part of its text: `before` the first word that was found, that word, and `after` it."""

    document: Document
    section: Section
    before: str
    word: str
    after: str

    @property
    def url(self) -> str:
        return f"/help/{self.document.slug}/#{self.section.anchor}"


def search(text: str, static: str) -> list[Hit]:
    """Return the sections with all words of the text, the best first. `static`: the URL of the static files."""
    words = text.lower().split()[:10]
    found = []
    for document in DOCUMENTS:
        for section in page_of(document, static).sections if words else ():
            title, content = section.title.lower(), section.text.lower()
            if all(word in title or word in content for word in words):
                weight = sum(20 * (word in title) + min(content.count(word), 10) for word in words)
                found.append((weight, document, section))
    found.sort(key=lambda each: -each[0])
    return [_hit(document, section, words) for _, document, section in found[:MOST]]


def _hit(document: Document, section: Section, words: list[str]) -> Hit:
    lower = section.text.lower()
    if len(lower) != len(section.text):  # a letter whose small form is longer: places would differ
        return Hit(document, section, section.text[: 2 * AROUND], "", "")
    places = [(at, word) for word in words if (at := lower.find(word)) >= 0]
    at, word = min(places, default=(0, ""))
    before, after = section.text[:at], section.text[at + len(word) :]
    if len(before) > AROUND:
        before = "… " + before[-AROUND:].partition(" ")[2]
    if len(after) > AROUND:
        after = after[:AROUND].rpartition(" ")[0] + " …"
    return Hit(document, section, before, section.text[at : at + len(word)], after)
