"""The console's settings with simulated brokers, for looking at pages with many of them:

HEADGATE_DATA=/tmp/fleet PYTHONPATH=bench DJANGO_SETTINGS_MODULE=fleet_settings uv run manage.py web
"""

from __future__ import annotations

import os
from typing import Any

from console.settings import *  # noqa: F403  # a settings module that extends another

_KINDS = ("headgate", "rabbitmq", "artemis", "activemq", "broker-j")
_REGIONS = ("eu", "us", "asia")


def _broker(number: int) -> dict[str, Any]:
    slug = f"{_REGIONS[number % 3]}-{_KINDS[number % 5]}-{number:02}"
    # "7=away,9=hung": brokers in trouble, by number.
    trouble = dict(word.split("=") for word in os.environ.get("HEADGATE_FLEET_TROUBLE", "").split(",") if word)
    return {
        "slug": slug,
        "title": slug.replace("-", " ").title(),
        "kind": _KINDS[number % 5],
        "tags": [_REGIONS[number % 3], "prod" if number % 4 else "test"],
        "paused": trouble.get(str(number)) == "paused",
        "connect": "fleet_brokers.connect",
        "options": {
            "name": slug,
            "queues": int(os.environ.get("HEADGATE_FLEET_QUEUES", "4000")),
            "share": float(os.environ.get("HEADGATE_FLEET_SHARE", "0.05")),
            "trouble": trouble.get(str(number), "").replace("paused", "away"),
        },
    }


HEADGATE_BROKERS = [_broker(number) for number in range(int(os.environ.get("HEADGATE_FLEET_BROKERS", "50")))]
