"""Patterns over dot-separated names, as stops and policies use them, for the engine and consoles alike. Pure."""

from __future__ import annotations

#: The rank of a match, see `match_rank`.
Rank = tuple[int, int, int, bool, str]


def matches(pattern: str, name: str) -> bool:
    """Whether a destination pattern covers a dot-separated name: `*` stands for one word; `>` or `#`, as the last
    word, for any number of words, none included; anything else for itself. The empty pattern covers every name."""
    if not pattern:
        return True
    wanted, is_open = fixed_words(pattern)
    words = name.split(".")
    if is_open:
        words = words[: len(wanted)]
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))


def pattern_contains(outer: str, inner: str) -> bool:
    """Whether `outer` covers every name that `inner` covers."""
    wanted, outer_open = fixed_words(outer)
    words, inner_open = fixed_words(inner)
    if outer_open:
        if wanted == ["*"]:  # every name has a first word
            return True
        words = words[: len(wanted)]
    elif inner_open:
        return False
    return len(wanted) == len(words) and all(w in ("*", word) for w, word in zip(wanted, words, strict=True))


def fixed_words(pattern: str) -> tuple[list[str], bool]:
    """(the words of a pattern, whether any number of words may follow them)."""
    words = pattern.split(".") if pattern else [">"]
    return (words[:-1], True) if words[-1] in (">", "#") else (words, False)


def match_rank(pattern: str, priority: int = 0) -> Rank:
    """Return a pattern's rank, the same for all names that it covers; the highest applies: the longest literal prefix,
    then fewer wildcards, then the higher priority, then a pattern of fixed length before an open one, then the
    patterns' alphabetical order."""
    words, is_open = fixed_words(pattern)
    prefix = next((n for n, word in enumerate(words) if word == "*"), len(words))
    return prefix, -(words.count("*") + is_open), priority, not is_open, pattern


def pattern_fault(pattern: str) -> str:
    """Return why a pattern is invalid, as a sentence; empty if it is valid."""
    words = pattern.split(".") if pattern else []
    if any(not word for word in words):
        return f"pattern {pattern!r} has an empty word: words are separated by single dots"
    if any(word in (">", "#") for word in words[:-1]):
        return f"pattern {pattern!r}: > and # may only be the last word"
    if any(len(word) > 1 and set(word) & set("*>#") for word in words):
        return f"pattern {pattern!r}: *, > and # stand for whole words"
    return ""
