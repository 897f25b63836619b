"""Error messages about unknown parameters and fields, with the names that exist."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator

from brokers import input_limits as limits
from brokers.input_checks import shortened

#: Longest name for which a similar name is suggested, in characters.
_COMPARED = 64


def unknown(kind: str, given: Collection[str], declared: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield name and message of the first few unknown names: one suffices to refuse, and suggestions cost time."""
    for name in itertools.islice((name for name in given if name not in declared), limits.NAMED):
        if not declared:
            message = f"this call has no {kind}s"
        elif len(name) <= _COMPARED and (near := difflib.get_close_matches(name, declared, 1)):
            message = f"did you mean {near[0]}?"
        else:
            message = _known(kind, list(declared))
        yield name, f"there is no {kind} {shortened(name)}: {message}"


def _known(kind: str, names: list[str]) -> str:
    return (
        f"{kind}s are {', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else f"the only {kind} is {names[0]}"
    )
