"""Static checks as tests: style, format, types and import rules (`pyproject.toml`); and no import cycles between files
of `brokers/`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = Path(sys.executable).parent

#: Permitted mutual imports: the docstrings of both modules name the other and give the reason.
PAIRS: Set[frozenset[str]] = frozenset()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=" ".join,
)
def test_code_passes_the_checks(command: list[str]) -> None:
    done = subprocess.run(
        [str(TOOLS / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} says:\n{done.stdout}{done.stderr}"


def test_broker_modules_have_no_import_cycles() -> None:
    """Imports for type checking count. Modules in a cycle can only be understood, tested and changed together."""
    graph = grimp.build_graph("brokers")
    found = circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    wrong = [sorted(circle) for circle in found if circle not in PAIRS]
    assert not wrong, "\n".join(f"a circle of {len(each)}: {', '.join(each)}" for each in wrong)


def test_mutual_imports_are_explained_in_the_module_docstrings() -> None:
    for pair in PAIRS:
        for module in pair:
            (other,) = pair - {module}
            path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
            said = ast.get_docstring(ast.parse(path.read_text())) or ""
            assert f"{other.rpartition('.')[2]}.py" in said, f"{module} does not say why it needs {other}"


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "a"}, ["ab"]),
        ({"a": "bd", "b": "c", "c": "a", "d": "e", "e": "d", "f": "a"}, ["abc", "de"]),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, []),
        ({"a": "b", "b": "ac", "c": "bd", "d": ""}, ["abc"]),
    ],
)
def test_import_cycles_are_found(graph: dict[str, str], expected: list[str]) -> None:
    assert sorted("".join(sorted(circle)) for circle in circles(graph)) == expected


def circles(graph: Mapping[str, Iterable[str]]) -> list[frozenset[str]]:
    """Return the strongly connected components with more than one node, by Kosaraju's algorithm."""
    back: dict[str, set[str]] = {node: set() for node in graph}
    for node, others in graph.items():
        for other in others:
            back[other].add(node)
    seen: set[str] = set()
    finished = [each for node in sorted(graph) for each in _walk(node, graph, seen)]
    seen = set()
    parts = [frozenset(_walk(node, back, seen)) for node in reversed(finished)]
    return [part for part in parts if len(part) > 1]


def _walk(start: str, graph: Mapping[str, Iterable[str]], seen: set[str]) -> Iterator[str]:
    """Yield the unvisited nodes that are reachable, in postorder."""
    if start in seen:
        return
    seen.add(start)
    path = [(start, iter(sorted(graph[start])))]
    while path:
        node, others = path[-1]
        for other in others:
            if other not in seen:
                seen.add(other)
                path.append((other, iter(sorted(graph[other]))))
                break
        else:
            path.pop()
            yield node
