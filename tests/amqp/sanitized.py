"""Runs tests with another build of the C extension: `python -m tests.amqp.sanitized EXTENSION TEST...`."""

from __future__ import annotations

import importlib.util
import sys

import pytest


def main(extension: str, tests: list[str]) -> int:
    spec = importlib.util.spec_from_file_location("brokers.amqp._runs", extension)
    assert spec is not None
    sys.modules["brokers.amqp._runs"] = importlib.util.module_from_spec(spec)
    return pytest.main(["-q", "-p", "no:cacheprovider", "--numprocesses=0", "-k", "not one_by_one", *tests])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
