"""The API page: the OpenAPI description of `/api/schema/` as HTML, without third-party scripts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

from console.pages.frame import frame

METHODS = ("get", "post", "put", "patch", "delete")


@require_safe
def api_docs(request: HttpRequest) -> HttpResponse:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    return render(request, "console/api_docs.html", {**frame(request, "api-docs", "API"), "calls": calls_of(schema)})


def calls_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of an OpenAPI 3 schema, sorted by path: method, path, summary, description, parameters, fields
    of the body, answers."""
    calls = []
    for path, operations in sorted(schema.get("paths", {}).items()):
        for method in METHODS:
            if operation := operations.get(method):
                summary, _, rest = operation.get("description", "").partition("\n")
                calls.append(
                    {
                        "method": method.upper(),
                        "path": path,
                        "summary": operation.get("summary") or summary,
                        "description": rest.strip(),
                        "parameters": operation.get("parameters", []),
                        "fields": _fields(schema, operation),
                        "answers": [
                            (status, answer.get("description", "")) for status, answer in operation["responses"].items()
                        ],
                    }
                )
    return calls


def _fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, str, str]]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if reference := content.get("$ref", ""):
        content = schema.get("components", {}).get("schemas", {}).get(reference.rsplit("/", 1)[-1], {})
    return [
        (name, str(value.get("type", "")), str(value.get("description", "")))
        for name, value in content.get("properties", {}).items()
    ]
