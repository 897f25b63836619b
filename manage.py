#!/usr/bin/env python
"""`manage.py COMMAND` in the repository: the same as `headgate COMMAND`, for the commands of `console/commands.py`."""

from __future__ import annotations

import sys

from console.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
