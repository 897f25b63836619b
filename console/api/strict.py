"""A call takes only what its description declares, as it declares it: a misspelt filter must not quietly mean "all of
them", nor a misspelt end of a stop "for ever". The serializer that describes a body is what checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from django.http import QueryDict
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.views import APIView

from brokers.admin import InvalidValue
from console.api.request_body import Body, body_faults, validated
from console.api.unknown_names import unknown

#: Declared by calls that take names of attributes, too: those say themselves which there are (`reading.where_in`).
ANY = "(attribute)"


class StrictAPIView(APIView):
    """A view that refuses parameters after the `?` that it does not declare, and bodies that its request serializer
    does not allow. Raises InvalidValue."""

    #: What the request serializer made of the body, with its defaults; of a call without a body empty.
    body: Mapping[str, Any] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if (request.method or "").lower() not in self._answered():
            self.http_method_not_allowed(request, *args, **kwargs)
        wrong: dict[str, str] = {}
        if request.query_params:
            parameters = {each.name: each for each in self._parameters(request)}
            if ANY not in parameters:
                wrong.update(unknown("parameter", request.query_params, parameters))
            wrong.update(_repeated(request.query_params, parameters))
        has_body = request.method in ("POST", "PUT", "PATCH")
        body = self._request_serializer(request) if has_body else None
        if has_body:
            wrong.update(body_faults(request.data, body))
        if wrong:
            raise InvalidValue(wrong)
        self.body = validated(request.data, body) if has_body else {}

    def _answered(self) -> set[str]:
        return {method for method in self.http_method_names if hasattr(self, method)}

    def _parameters(self, request: Request) -> list[OpenApiParameter]:
        """In the order of the description."""
        found = self._described(request).get_override_parameters()
        query = OpenApiParameter.QUERY
        return [each for each in found if isinstance(each, OpenApiParameter) and each.location == query]

    def _request_serializer(self, request: Request) -> Body | None:
        declared = self._described(request).get_request_serializer()
        return cast("Body | None", declared() if isinstance(declared, type) else declared)

    def _described(self, request: Request) -> AutoSchema:
        method = "GET" if request.method == "HEAD" else request.method or ""
        handler = getattr(self, method.lower(), None)
        description = getattr(handler, "kwargs", {}).get("schema", AutoSchema)()
        description.view, description.method = self, method
        return cast("AutoSchema", description)


def _repeated(given: QueryDict, declared: Mapping[str, OpenApiParameter]) -> Iterator[tuple[str, str]]:
    """Only one of several values would count, and nothing says which."""
    for name, parameter in declared.items():
        if not parameter.many and len(values := given.getlist(name)) > 1:
            yield name, f"{name} is given {len(values)} times: it is taken once"
