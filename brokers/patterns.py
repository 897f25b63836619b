"""Patterns over dot-separated names, as stops and policies use them: one meaning for engine and consoles. Pure."""

from __future__ import annotations


def matches(pattern: str, name: str) -> bool:
    """Whether a destination pattern covers a dot-separated name: `*` stands for one word; `>` or `#`, as the last
    word, for any number of words, none included; anything else for itself. The empty pattern covers every name."""
    if not pattern:
        return True
    wanted, words = pattern.split("."), name.split(".")
    if wanted[-1] in (">", "#"):
        wanted.pop()
        if len(words) < len(wanted):
            return False
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))


def pattern_fault(pattern: str) -> str:
    """What is wrong with a pattern, as a sentence; empty if nothing is."""
    words = pattern.split(".") if pattern else []
    if any(not word for word in words):
        return f"pattern {pattern!r} has an empty word: words are separated by single dots"
    if any(word in (">", "#") for word in words[:-1]):
        return f"pattern {pattern!r}: > and # may only be the last word"
    if any(len(word) > 1 and set(word) & set("*>#") for word in words):
        return f"pattern {pattern!r}: *, > and # stand for whole words"
    return ""
