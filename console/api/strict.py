"""Strict validation: a call refuses parameters and fields that it does not declare. A misspelt filter must not silently
match everything, nor a misspelt end of a stop make it unlimited. The serializer in OpenAPI validates the body."""

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

#: Declared by calls that also accept attribute names as parameters; `base_views.where_in` checks those.
ANY = "(attribute)"


class StrictAPIView(APIView):
    """A view that refuses undeclared query parameters, and bodies that its request serializer does not allow. Raises
    InvalidValue."""

    #: The validated body with defaults; empty for a call without a body.
    body: Mapping[str, Any] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if (request.method or "").lower() not in self._methods():
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

    def _methods(self) -> set[str]:
        return {method for method in self.http_method_names if hasattr(self, method)}

    def _parameters(self, request: Request) -> list[OpenApiParameter]:
        """Return the declared query parameters in the order of the description."""
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
    """Yield an error for each parameter that is repeated although only one of its values would count."""
    for name, parameter in declared.items():
        if not parameter.many and len(values := given.getlist(name)) > 1:
            yield name, f"{name} is given {len(values)} times: give it once"
