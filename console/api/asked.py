"""A call takes only what its description declares, in the types that it declares. A misspelt filter must not quietly
mean "all of them", nor a misspelt end of a stop "for ever"."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from django.http import QueryDict
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.serializers import Field, ListSerializer, Serializer
from rest_framework.views import APIView

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import shortened
from console.api.body_types import wrong_types

#: Declared by calls that take names of attributes, too: those say themselves which there are (`reading.where_in`).
ANY = "(attribute)"
#: Characters of a name that may be a misspelt one.
_COMPARED = 64


class AskedView(APIView):
    """A view that refuses parameters after the `?`, and fields of a body, that it does not declare, and fields of other
    types than it declares. Raises InvalidValue."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if (request.method or "").lower() not in self._answered():
            self.http_method_not_allowed(request, *args, **kwargs)
        wrong: dict[str, str] = {}
        if request.query_params:
            parameters = {each.name: each for each in self._parameters(request)}
            if ANY not in parameters:
                wrong.update(_unknown("parameter", request.query_params, parameters))
            wrong.update(_repeated(request.query_params, parameters))
        if request.method in ("POST", "PUT", "PATCH"):
            wrong.update(self._wrong_fields(request))
        if wrong:
            raise InvalidValue(wrong)

    def _answered(self) -> set[str]:
        return {method for method in self.http_method_names if hasattr(self, method)}

    def _wrong_fields(self, request: Request) -> Iterator[tuple[str, str]]:
        fields = self._fields(request)
        if isinstance(request.data, Mapping):
            yield from wrong_types(request.data, fields)
            yield from itertools.islice(_unknown_fields(request.data, fields), limits.NAMED)

    def _parameters(self, request: Request) -> list[OpenApiParameter]:
        """In the order of the description."""
        found = self._described(request).get_override_parameters()
        query = OpenApiParameter.QUERY
        return [each for each in found if isinstance(each, OpenApiParameter) and each.location == query]

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
    """Each name that there is not, with a sentence: the first ones, since one is enough to refuse, and looking for what
    was meant takes time."""
    for name in itertools.islice((name for name in given if name not in declared), limits.NAMED):
        if not declared:
            says = "this takes none"
        elif len(name) <= _COMPARED and (near := difflib.get_close_matches(name, declared, 1)):
            says = f"did you mean {near[0]}?"
        else:
            says = f"there is {_list(list(declared))}"
        yield name, f"there is no {kind} {shortened(name)}: {says}"


def _repeated(given: QueryDict, declared: Mapping[str, OpenApiParameter]) -> Iterator[tuple[str, str]]:
    """Only one of several values would count, and nothing says which."""
    for name, parameter in declared.items():
        if not parameter.many and len(values := given.getlist(name)) > 1:
            yield name, f"{name} is given {len(values)} times: it is taken once"


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
