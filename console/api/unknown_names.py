"""Names that a request gives and its description does not declare, each with a sentence that says what there is."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator

from brokers import input_limits as limits
from brokers.input_checks import shortened

#: Characters of a name that may be a misspelt one.
_COMPARED = 64


def unknown(kind: str, given: Collection[str], declared: Collection[str]) -> Iterator[tuple[str, str]]:
    """The first ones only, since one is enough to refuse, and looking for what was meant takes time."""
    for name in itertools.islice((name for name in given if name not in declared), limits.NAMED):
        if not declared:
            says = "this takes none"
        elif len(name) <= _COMPARED and (near := difflib.get_close_matches(name, declared, 1)):
            says = f"did you mean {near[0]}?"
        else:
            says = f"there is {_list(list(declared))}"
        yield name, f"there is no {kind} {shortened(name)}: {says}"


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
