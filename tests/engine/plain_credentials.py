"""Credentials without a hash or a random source, in place of the server's."""

from __future__ import annotations

from typing import Any


class PlainCredentials:
    def prepare(self, name: str) -> str:
        return name

    def verifier(self, password: str) -> dict[str, Any]:
        return {"of": password}  # a test can read it

    def generate(self) -> str:
        return "generated"
