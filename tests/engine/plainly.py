"""Credentials without a hash or a random source: what the engine's accounts ask the server for."""

from __future__ import annotations

from typing import Any


class Plainly:
    def prepare(self, name: str) -> str:
        return name

    def verifier(self, password: str) -> dict[str, Any]:
        return {"of": password}  # a test can read it

    def generate(self) -> str:
        return "generated"
