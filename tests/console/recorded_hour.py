"""A history for tests of the API: an hour of yesterday, recorded but for five minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.history.delta import (
    HOUR,
    MINUTE,
    SECOND,
    coverage,
    episode,
    event,
    rollup,
    sample,
    write,
)

BASE = "/api/v1/history/"
#: A whole hour of yesterday.
T = (int(time.time() * 1000) // HOUR - 24) * HOUR


@pytest.fixture(params=["", "file://"], ids=["folder", "url"])
def url(request: pytest.FixtureRequest, tmp_path: Path, settings: Any) -> str:
    """A folder, configured by path or by URL; for a URL, as of an object store, pyarrow reads the files."""
    settings.HEADGATE_HISTORY_URL = f"{request.param}{tmp_path / 'history'}"
    return str(tmp_path / "history")


@pytest.fixture
def recorded_hour(url: str) -> str:
    """One hour of `orders`, recorded except for minutes 40 to 45: overfull from 10:00 to 12:00 and since 50:00."""
    write(url, "coverage", [coverage(T, T + 40 * MINUTE), coverage(T + 45 * MINUTE, T + HOUR)])
    samples = [sample(T + s * SECOND, s // 4) for s in range(0, 40 * 60, 10)]
    samples += [sample(T + s * SECOND, 100) for s in range(45 * 60, 60 * 60, 10)]
    write(url, "samples", samples)
    known = [m for m in range(60) if not 40 <= m < 45]
    minutes = [
        rollup(
            T + m * MINUTE,
            messages_mean=float(m),
            messages_max=m + 1,
            overfull_ms=MINUTE if m in (10, 11) or m >= 50 else 0,
            blocked_ms=2 * MINUTE if m in (10, 11) or m >= 50 else 0,
            messages_in=60,
            messages_out=60,
            capacity_messages=1000,
            stop_messages=1000,
            resume_messages=800,
        )
        for m in known
    ]
    minutes += [rollup(T + 10 * MINUTE, "shop link-1", "producer", queue="orders", blocked_ms=MINUTE, blocks=1)]
    minutes += [rollup(T + 20 * MINUTE, "invoices", overfull_ms=MINUTE, blocked_ms=MINUTE)]
    write(url, "minutes", minutes)
    write(
        url,
        "episodes",
        [
            episode(T + 10 * MINUTE, T + 12 * MINUTE),
            episode(T + 50 * MINUTE, None),
            episode(T + 20 * MINUTE, T + 21 * MINUTE, "invoices", peak_messages=7),
            episode(
                T + 30 * MINUTE,
                T + 31 * MINUTE,
                None,
                id="stop",
                kind="stopped",
                virtualhost=None,
                scope="virtualhost default ord.>",
                actor="ada",
                reason="a leak",
            ),
            episode(
                T + 32 * MINUTE,
                T + 33 * MINUTE,
                None,
                id="stop-all",
                kind="stopped",
                virtualhost=None,
                scope="broker",
                actor="=1+1",
                reason="everything",
            ),
        ],
    )
    queue = {"object": "type=Queue,virtualhost=default,name=orders", "object_type": "Queue", "queue": "orders"}
    host = {"object": "type=VirtualHost,name=default", "object_type": "VirtualHost"}
    write(
        url,
        "events",
        [
            event(
                T + 10 * MINUTE, "queue-overfull", 1, **queue, depth_messages=1001, state="OVERFULL", text="QUE-1003"
            ),
            event(T + 10 * MINUTE, "producer-blocked", 2, object_type="Producer", queue="orders", client="shop"),
            event(T + 12 * MINUTE, "queue-underfull", 3, **queue, depth_messages=800, state="NORMAL"),
            event(
                T + 15 * MINUTE,
                "policy-changed",
                4,
                **queue,
                actor="olga",
                before='{"capacity_messages": 500}',
                after='{"capacity_messages": 1000}',
            ),
            event(T + 30 * MINUTE, "producers-stopped", 5, **host, scope="virtualhost default ord.>", actor="ada"),
            event(T + 32 * MINUTE, "producers-stopped", 6, object_type="Broker", scope="broker", actor="ada"),
            event(
                T + 33 * MINUTE,
                "policy-changed",
                7,
                object="type=Policy,virtualhost=default,pattern=inv*",
                object_type="Policy",
            ),
            event(T + 34 * MINUTE, "connection-opened", 8, object_type="Connection"),
        ],
    )
    return url


def query(client: APIClient, what: str, status: int = 200, **parameters: Any) -> Any:
    """Call the API, for that hour where the call has a range."""
    given = ({} if what in ("advice", "queues") else {"from": T, "until": T + HOUR}) | parameters
    answer = client.get(f"{BASE}{what}/", {name: value for name, value in given.items() if value is not None})
    assert answer.status_code == status, answer.content
    return answer.json()
