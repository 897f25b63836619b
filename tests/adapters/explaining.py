"""Explanations of a real broker, as the page and the API show them."""

from __future__ import annotations

from typing import Any

from brokers.model import ObjectName
from console.incident.facts import read
from console.incident.why import explanation
from tests.adapters.hosted import Hosted


async def explained(hosted: Hosted, name: ObjectName) -> dict[str, Any]:
    """Return why a queue or a producer is blocked."""
    facts = await read(hosted.broker, name)
    assert facts is not None, f"there is no {name}"
    return explanation(facts)
