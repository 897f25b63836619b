"""The console's scripts and style sheets: format, lint, types and unit tests, as tests/test_quality.py has for Python.

npm fetches them once, in the versions of `package-lock.json`, into pytest's cache. `npm install` and not `npm ci`: the
lock file has the builds of Linux alone, and another system's is fetched beside them.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.peers import built, need, run

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCRIPTS = ROOT / "console" / "static" / "console"
HOW = "install Node.js (18 or later) and npm, on Debian `apt-get install nodejs npm`, and be online once"
WITHIN = 240  # s

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def node() -> str:
    return need("node", HOW)


@pytest.fixture(scope="session")
def tools(node: str, pytestconfig: pytest.Config) -> Path:
    """The folder of the installed packages."""
    npm = need("npm", HOW)
    assert pytestconfig.cache is not None
    sources = [HERE / name for name in ("package.json", "package-lock.json", ".npmrc")]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        run("fetching the tools with npm", HOW, npm, "install", cwd=folder)

    cache = pytestconfig.cache.mkdir("javascript-tools")
    with (cache / "lock").open("w") as lock:  # several processes of the tests may come here at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return built(cache, sources, install) / "node_modules"


def passes(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))} says:\n{done.stdout}{done.stderr}"


def test_scripts_and_style_sheets_are_formatted_and_pass_the_linter(node: str, tools: Path) -> None:
    """Among its rules: no circle of imports, and each folder imports only what stands below it."""
    options = ["--config-path=tests/javascript/biome.console.json", "--colors=off", "--error-on-warnings"]
    passes(node, tools / "@biomejs/biome/bin/biome", "ci", *options, "console/static", "tests/javascript")


def test_types_agree(node: str, tools: Path) -> None:
    """The JSDoc types, strictly: what the API answers and what templates have is `any` there."""
    passes(node, tools / "typescript/bin/tsc", "-p", "tests/javascript")


def test_the_pure_modules_do_what_their_unit_tests_say(node: str) -> None:
    tests = sorted(path.relative_to(ROOT) for path in (HERE / "unit").glob("*.test.js"))
    assert tests
    passes(node, "--import=./tests/javascript/modules.js", "--test", *tests)


def test_lines_are_at_most_120_characters() -> None:
    """The formatter leaves long texts and comments as they are."""
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(SCRIPTS.rglob("*"))
        if path.suffix in {".js", ".css"}
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not long, f"longer than 120 characters: {', '.join(long)}"


def test_the_lock_file_names_no_registry() -> None:
    assert "resolved" not in (HERE / "package-lock.json").read_text()
