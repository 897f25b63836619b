"""The console's settings with the one broker that `adapters.py` serves: HEADGATE_ADAPTED_PORT, and
HEADGATE_ADAPTED_SECRET, the file with the password of its service."""

from __future__ import annotations

import os
from pathlib import Path

from brokers.admin import BrokerAdmin
from console.settings import *  # noqa: F403  # a settings module that extends another

HEADGATE_BROKERS = [
    {
        "slug": "measured",
        "title": "Measured",
        "connect": "adapters_settings.connect",
        "options": {
            "port": int(os.environ["HEADGATE_ADAPTED_PORT"]),
            "secret": os.environ["HEADGATE_ADAPTED_SECRET"],
        },
        "types_known": False,
    }
]


async def connect(*, port: int, secret: str) -> BrokerAdmin:
    from brokers.drivers.bundled import BundledBroker

    return await BundledBroker.connect("127.0.0.1", port, "console", _password(secret), timeout=45, name="measured")


def _password(secret: str) -> str:
    return Path(secret).read_text().strip()
