"""The C extension under the sanitizers of gcc: no access out of bounds or after a free, no undefined behaviour.

Tests with hostile frames, lost connections and random histories run with a build of their own, in which each object of
Python, too, has memory of its own. Proton is not instrumented, but its memory is the sanitizer's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.interop.peers import absent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent.parent
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror")
QUIET = ("-Wno-unused-parameter", "-Wno-missing-field-initializers")  # what Python's own interface requires
TESTS = (
    "test_runs.py",
    "test_runs_model.py",
    "test_malformed_frames.py",
    "test_hostile_messages.py",
    "test_connection_cleanup.py",
    "test_false_sizes.py",
)


def built(folder: Path, *options: str) -> Path:
    if shutil.which("gcc") is None:
        absent("gcc is not installed", "install gcc")
    built = folder / "_runs.so"
    include = sysconfig.get_path("include")
    command = ["gcc", "-std=gnu11", "-shared", "-fPIC", "-g", *WARNINGS, *QUIET, *options, f"-I{include}"]
    done = subprocess.run(
        [*command, str(ROOT / "brokers/amqp/_runs.c"), "-o", str(built)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("level", ["-O2", "-O3"])
def test_it_compiles_without_warnings(tmp_path: Path, level: str) -> None:
    assert built(tmp_path, level).exists()


@pytest.mark.parametrize("test", TESTS)
def test_no_memory_is_misused(tmp_path: Path, test: str) -> None:
    extension = built(
        tmp_path, "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover"
    )
    libraries = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees nothing at its end
        "PYTHONMALLOC": "malloc",
    }
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.amqp.sanitized",
            str(extension),
            f"tests/amqp/{test}",
            f"--basetemp={tmp_path}/t",
        ],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    assert "Sanitizer" not in said, said[-6000:]
    assert " passed" in said, said[-6000:]
    assert " skipped" not in said, said[-6000:]
