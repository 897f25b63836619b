"""A call is asked only what its description declares. A misspelt filter must not quietly mean "all of them"."""

from __future__ import annotations

import difflib
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.views import APIView

from brokers.admin import InvalidValue

#: Declared by calls that take names of attributes, too: those say themselves which there are (`reading.where_in`).
ANY = "(attribute)"


class AskedView(APIView):
    """A view that refuses parameters after the `?` that it does not declare. Raises InvalidValue."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not request.query_params:
            return
        declared = self._declared("GET" if request.method == "HEAD" else request.method or "")
        if ANY in declared:
            return
        wrong = {name: _sentence(name, declared) for name in request.query_params if name not in declared}
        if wrong:
            raise InvalidValue(wrong)

    def _declared(self, method: str) -> list[str]:
        """Names, in the order of the description."""
        handler = getattr(self, method.lower(), None)
        description = getattr(handler, "kwargs", {}).get("schema", AutoSchema)()
        description.view, description.method = self, method
        found = description.get_override_parameters()
        return [each.name for each in found if each.location == OpenApiParameter.QUERY]


def _sentence(name: str, declared: list[str]) -> str:
    if not declared:
        return f"there is no parameter {name}: this takes none"
    near = difflib.get_close_matches(name, declared, 1)
    return f"there is no parameter {name}: " + (f"did you mean {near[0]}?" if near else f"there is {_list(declared)}")


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
