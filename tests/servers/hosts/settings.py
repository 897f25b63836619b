"""The console's settings for processes of these tests: a kind of brokers more, and a host's name on request, so that
processes of one machine are those of several hosts."""

from __future__ import annotations

import os
import socket

from brokers.adapters.kinds import KINDS, Kind
from console.settings import *  # noqa: F403

KINDS["remote"] = Kind("Remote", "tests.servers.hosts.remote_adapter:open_account", "http://127.0.0.1:1")

if _host := os.environ.get("TEST_HOST_NAME"):
    socket.gethostname = lambda: _host  # type: ignore[misc]
