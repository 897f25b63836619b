"""`headgate`: a command of one of the product's processes runs here, any other is the command line's.

Nothing of the command line is imported for a process, which lives long and has its own.
"""

from __future__ import annotations

import sys

from console import catalog, commands


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["manage"]:
        sys.exit(commands.main(["headgate manage", *arguments[1:]]))
    if arguments and arguments[0] in catalog.HERE:
        sys.exit(commands.main(["headgate", *arguments]))
    from console.cli.main import main as command_line

    command_line()
