"""Run the supervisor with any commands: `python -m tests.up.stand_in '[{"name": ..., "command": [...]}, ...]'`."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from console.up.supervisor import Service, Supervisor


async def exists(path: str) -> bool:
    return Path(path).exists()  # noqa: ASYNC240 - a stand-in


async def main(declared: list[dict[str, Any]]) -> int:
    supervisor = Supervisor(first_pause=0.05)

    async def start() -> None:
        for entry in declared:
            ready = partial(exists, entry["ready"]) if "ready" in entry else None
            command = tuple(entry["command"])
            if entry.get("once"):
                supervisor.say("up", f"said {await supervisor.complete(entry['name'], command, {})}")
                continue
            options = {name: entry[name] for name in ("ready_within", "essential", "show_stdout") if name in entry}
            if entry.get("first"):
                await supervisor.run_once(Service(entry["name"], command, **options))
                continue
            await supervisor.keep(Service(entry["name"], command, ready=ready, **options))
        supervisor.say("up", "everything is ready")

    return await supervisor.run(start)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(json.loads(sys.argv[1]))))
