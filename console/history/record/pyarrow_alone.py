"""Let pyarrow do without pandas in a process that needs none.

pyarrow imports pandas, if it is installed, when it first converts a list to an array: 30 MB and half a second for a
process that runs all the time. It tries once, and remembers the result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pyarrow as pa


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def use_pyarrow_alone() -> None:
    """Call it before the first array is made; afterwards pandas can be imported as usual."""
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
