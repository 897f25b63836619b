"""Descriptions of operations in OpenAPI: from the operation's own docstring, never from an inherited one."""

from __future__ import annotations

import inspect

from drf_spectacular.openapi import AutoSchema


class OperationSchema(AutoSchema):
    def get_description(self) -> str:  # type: ignore[override]  # as the base does
        """Return the docstring of the method, else that of its view class; those of base classes are for developers."""
        method = getattr(self.view, self.method.lower(), None)
        own = vars(type(self.view)).get("__doc__")
        return inspect.cleandoc(getattr(method, "__doc__", None) or own or "")
