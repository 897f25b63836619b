"""A process of the console with a link to one broker, as a web process has it. It writes JSON lines: each event of the
link, and each change of its status; and it carries out requests that come as JSON lines."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any


def main(slug: str) -> None:
    import django

    django.setup()

    from brokers.model import ObjectName
    from console.brokers import configured
    from console.links.registry import link

    configured.follow()
    followed = link(slug)
    lock = threading.Lock()

    def say(**line: Any) -> None:
        with lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def carry_out(name: str, operation: str, arguments: dict[str, Any]) -> None:
        try:
            answer = followed.call(lambda admin: admin.call(ObjectName.parse(name), operation, arguments), timeout=60)
            say(answer=dict(answer))
        except Exception as error:
            say(refused=f"{type(error).__name__}: {error}")

    def requests() -> None:
        for line in sys.stdin:
            threading.Thread(target=carry_out, args=json.loads(line), daemon=True).start()

    threading.Thread(target=requests, daemon=True).start()
    last, status = 0, None
    while True:
        if followed.status != status:
            status = followed.status
            say(connected=status.connected, error=status.error)
        tail = followed.recent_events(last)
        for event in tail.events:
            say(number=event.number, kind=event.kind, name=event.object.get("name") or "", at=event.at)
            last = event.number
        time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
