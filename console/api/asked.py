"""A call takes only what its description declares. A misspelt filter must not quietly mean "all of them", nor a
misspelt end of a stop "for ever"."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.serializers import Field, ListSerializer, Serializer
from rest_framework.views import APIView

from brokers.admin import InvalidValue

#: Declared by calls that take names of attributes, too: those say themselves which there are (`reading.where_in`).
ANY = "(attribute)"


class AskedView(APIView):
    """A view that refuses parameters after the `?`, and fields of a body, that it does not declare. Raises
    InvalidValue."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        wrong: dict[str, str] = {}
        if request.query_params:
            parameters = self._parameters(request)
            if ANY not in parameters:
                wrong.update(_unknown("parameter", request.query_params, parameters))
        if request.method in ("POST", "PUT", "PATCH") and isinstance(request.data, Mapping):
            wrong.update(_unknown_fields(request.data, self._fields(request)))
        if wrong:
            raise InvalidValue(wrong)

    def _parameters(self, request: Request) -> list[str]:
        """Names, in the order of the description."""
        found = self._described(request).get_override_parameters()
        query = OpenApiParameter.QUERY
        return [each.name for each in found if isinstance(each, OpenApiParameter) and each.location == query]

    def _fields(self, request: Request) -> Mapping[str, Field[Any, Any, Any, Any]]:
        body = self._described(request).get_request_serializer()
        body = body() if isinstance(body, type) else body
        return {} if body is None else body.fields

    def _described(self, request: Request) -> AutoSchema:
        method = "GET" if request.method == "HEAD" else request.method or ""
        handler = getattr(self, method.lower(), None)
        description = getattr(handler, "kwargs", {}).get("schema", AutoSchema)()
        description.view, description.method = self, method
        return cast("AutoSchema", description)


def _unknown_fields(
    given: Mapping[str, Any], declared: Mapping[str, Field[Any, Any, Any, Any]]
) -> Iterator[tuple[str, str]]:
    """Also of the objects inside that have declared fields of their own."""
    yield from _unknown("field", given, declared)
    for name, field in declared.items():
        value = given.get(name)
        shape = field.child if isinstance(field, ListSerializer) else field
        if isinstance(shape, Serializer):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Mapping):
                    yield from _unknown_fields(each, shape.fields)


def _unknown(kind: str, given: Collection[str], declared: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each name that there is not, with a sentence."""
    for name in given:
        if name in declared:
            continue
        if not declared:
            says = "this takes none"
        elif near := difflib.get_close_matches(name, declared, 1):
            says = f"did you mean {near[0]}?"
        else:
            says = f"there is {_list(list(declared))}"
        yield name, f"there is no {kind} {name}: {says}"


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
