"""What the OpenAPI description says of an operation: words of its own, never of a view that its is derived from."""

from __future__ import annotations

import inspect

from drf_spectacular.openapi import AutoSchema


class Described(AutoSchema):
    def get_description(self) -> str:  # type: ignore[override]  # as the base does
        """That of the method, or else of its very view; others' docstrings are for who reads the code."""
        method = getattr(self.view, self.method.lower(), None)
        own = vars(type(self.view)).get("__doc__")
        return inspect.cleandoc(getattr(method, "__doc__", None) or own or "")
