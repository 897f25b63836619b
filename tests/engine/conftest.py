"""Hypothesis profiles for the engine's suite: bounded everywhere, and the same examples on every run in CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "local", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
