#!/usr/bin/env python
"""`manage.py COMMAND` in the repository: the same as `headgate COMMAND` for the commands of `headgate/commands.py`."""

from __future__ import annotations

import sys

from headgate.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
