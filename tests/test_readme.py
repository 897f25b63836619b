"""README files: their examples work, and the files and headings that they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.amqp.broker_thread import BrokerThread

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = {"README.md", "DOMAIN.md", "CHANGELOG.md"}
FILES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if path.name in PAGES
    and not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)
)


def test_readme_client_sends_and_receives(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "127.0.0.1:5672" in example
    with BrokerThread(tmp_path, demo=True) as broker:
        program = example.replace("127.0.0.1:5672", f"127.0.0.1:{broker.port}")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"hello {number}" for number in range(10)]


def headings(path: Path) -> set[str]:
    """Return the anchors of the headings of a file."""
    found = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in found}


def test_each_documented_folder_has_a_readme() -> None:
    folders = {str(path.parent.relative_to(ROOT)) for path in FILES}
    assert {
        ".",
        "bench",
        "brokers",
        "console",
        "console/deploy",
        "console/history",
        "tests",
        "tests/interop",
    } <= folders


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_heading(path: Path) -> None:
    text = path.read_text()
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    for link in links:
        name, _, anchor = link.partition("#")
        if "://" in name:
            continue
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_named_file_exists(path: Path) -> None:
    """Paths in code quotes are relative to the project or to the file's folder, or names of modules."""
    text = re.sub(r"^(?:    |```).*?$", "", path.read_text(), flags=re.MULTILINE)
    folders = {each.name for top in (ROOT, path.parent) for each in top.iterdir() if each.is_dir()}
    for name in re.findall(r"`(?:uv run )?([\w./-]+)`", text):
        if name.partition("/")[0] in folders and "/" in name:
            assert (ROOT / name).exists() or (path.parent / name).exists(), name
        elif re.fullmatch(r"[a-z_]+\.py", name):
            assert any(any((ROOT / top).rglob(name)) for top in ("brokers", "console", "tests", "bench")), name
