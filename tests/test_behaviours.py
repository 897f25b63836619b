"""The rules of `brokers/DOMAIN.md`: each row of its tables has at least one test that names it.

A test names a row by `@pytest.mark.domain("SECTION ROW")`, such as `@pytest.mark.domain("1 limits")`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

DOMAIN = Path(__file__).parent.parent / "brokers" / "DOMAIN.md"


def _rows() -> list[str]:
    rows, section = [], ""
    for line in DOMAIN.read_text().splitlines():
        if heading := re.match(r"## (\w+)\.", line):
            section = heading[1]
        elif (cells := re.match(r"\| (.+?) \| .+ \|$", line)) and cells[1] != "row":
            rows.append(f"{section} {cells[1]}")
    return rows


def _named() -> dict[str, list[str]]:
    """Return the tests by row that they name."""
    found: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.domain":
                        for argument in mark.args:
                            found.setdefault(ast.literal_eval(argument), []).append(node.name)
    return found


def test_each_behaviour_has_a_test_that_names_it() -> None:
    rows, named = _rows(), _named()
    assert len(rows) == len(set(rows)), "a row is there twice"
    assert sorted(set(rows) - set(named)) == [], "rows that no test names"
    assert sorted(set(named) - set(rows)) == [], "names that are no row"


def test_each_cited_section_exists() -> None:
    sections = set(re.findall(r"^## (\w+)\.", DOMAIN.read_text(), re.MULTILINE))
    for top in ("brokers", "console"):
        for file in (DOMAIN.parent.parent / top).rglob("*.py"):
            for cited in re.findall(r"DOMAIN\.md\s+sections?\s+(\d+)(?:\s+and\s+(\d+))?", file.read_text()):
                assert {each for each in cited if each} <= sections, file
