"""`python -m console COMMAND`, and the file by which Headgate starts its own processes."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Instead of the current folder, or this one: where the package is, installed or not.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from console.commands import main

    sys.exit(main(sys.argv))
