"""The words of the project: what the field has a term for is named by it, in code, texts, documents and tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOP = ("brokers", "console", "templates", "tests", "bench")
KINDS = {".py", ".js", ".html", ".css", ".md", ".txt", ".toml", ".json", ".ts"}

#: A word that is not used, and what to write instead.
TERMS = {
    "told|untold|tell|tells|telling": "report, return, publish, notify, show, distinguish",
    "held": "blocked (producers), withheld (settlements), owned (leases), locked",
    "kept": "retained, stored, cached, preserved",
    "asked": "requested",
    "owed": "pending",
    "anew": "again",
    "beneath": "below, inherited from",
    "somebody|nobody|everybody|whoever|whomever|whom": "a user, no user, all users; who",
    "chore|chores": "maintenance job",
    "hasty|goodbye|gently|manieth": "the name of the limit; staged start; the sequence number",
    "so many|as far as|by itself|by themselves|for ever|again and again": "say it plainly",
}

#: Published and stored names that stay as they are: fields of the API that have newer names beside them, fields of the
#: broker's management, and tables.
NAMES = re.compile(
    r"tell_resolved|told_by|asked_by|held_in|Held in|history_held|owed\.json|\.tell\(|def tell\b"
    r"|(?P<quote>[\"'`])(held|asked|chores?)(?P=quote)"
)

#: Where such a name stands without quotes, or another word is meant.
ALLOWED = {
    "console/api/history_status.py": {"asked", "chore", "chores"},
    "console/api/schema.py": {"asked", "held"},
    "console/history/pipeline/diagnosis.py": {"chore"},
    "tests/servers/servers.py": {"nobody"},  # the system's user
    "tests/test_words.py": set(re.findall(r"[a-z]+(?: [a-z]+)*", "|".join(TERMS))),
}


def texts() -> Iterator[tuple[str, str]]:
    for path in (*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(each for top in TOP for each in (ROOT / top).rglob("*"))):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in KINDS and not re.search(
            r"/(migrations|node_modules|vendor|plotly|__pycache__)/|package-lock", name
        ):
            yield name, path.read_text(encoding="utf-8", errors="replace")


def uses(text: str, words: str) -> Iterator[tuple[int, str]]:
    """Lines with one of the words, alone or as a part of an identifier."""
    found = re.compile(rf"(?<![a-z])({words})(?![a-z])", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for match in found.finditer(NAMES.sub("", line)):
            yield number, match[1].lower()


@pytest.mark.parametrize("words", TERMS)
def test_a_term_of_the_field_is_used(words: str) -> None:
    found = [
        f"{name}:{number}: {word}"
        for name, text in texts()
        for number, word in uses(text, words)
        if word not in ALLOWED.get(name, set())
    ]
    assert not found, f"write {TERMS[words]}: {found}"


def test_a_word_is_found_in_texts_and_in_names() -> None:
    text = "def test_nobody_is_told():\n    keptAlive = 1\n    told = 'Told by'\n    withheld = untolded = 'held'\n"
    assert list(uses(text, "told|nobody|held")) == [(1, "nobody"), (1, "told"), (3, "told"), (3, "told")]


def test_each_exception_is_needed() -> None:
    by_name = dict(texts())
    for name, words in ALLOWED.items():
        assert words == {word for _, word in uses(by_name[name], "|".join(TERMS))}, name
