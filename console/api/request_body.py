"""Validation of a request body by the serializer that OpenAPI declares for it, so that schema and checks agree.

First names and JSON types, without conversion: Django REST framework's own fields would accept "5" as 5 and "yes" as
true, and `"only": "true"` must not lift nested stops. Then `is_valid()` of the serializer: missing, null and empty
values, choices and ranges. Errors become sentences that name the field and the value.

A `JSONField` accepts any type: attributes are validated by their managed type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.fields import Field

from brokers import input_limits as limits
from brokers.admin import InvalidValue
from brokers.input_checks import shortened
from console.api.unknown_names import unknown

AnyField = Field[Any, Any, Any, Any]
Body = serializers.BaseSerializer[Any]

#: By the first class that a field is an instance of: the Python types of its values, and their name in messages.
_TYPES: tuple[tuple[type[Any], tuple[type[Any], ...], str], ...] = (
    (serializers.JSONField, (object,), "something"),
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.ListSerializer, (list,), "a list"),
    (serializers.ListField, (list,), "a list"),
    (serializers.BaseSerializer, (dict,), "a JSON object"),
    (serializers.DictField, (dict,), "a JSON object"),
)
_TEXT = (str,), "text"  # all other fields, such as times and choices


def body_faults(given: Any, body: Body | None) -> dict[str, str]:
    """Return a sentence by field name for each unknown field and each value of a wrong type, nested ones included."""
    if body is None:
        return dict(unknown("field", given, ())) if isinstance(given, Mapping) else {}
    if not isinstance(given, dict):
        return {"detail": "the body must be a JSON object"}
    fields = _fields(body)
    faults = itertools.chain(_wrong_types(given, fields), itertools.islice(_unknown(given, fields), limits.NAMED))
    return dict(faults)


def validated(given: Any, body: Body | None) -> dict[str, Any]:
    """Return the validated values with the declared defaults. Call `body_faults` first: this does not check types.
    Raises InvalidValue."""
    if body is None:
        return {}
    # A dict, since DRF parses an empty QueryDict as an HTML form, with other rules for omitted fields.
    serializer = type(body)(data=dict(given))
    if not serializer.is_valid():
        wrong: dict[str, str] = {}
        for field, message in itertools.islice(_sentences("", serializer, given, serializer.errors), 10 * limits.NAMED):
            wrong.setdefault(field, message)
        raise InvalidValue(wrong)
    return dict(serializer.validated_data)


def _fields(of: Any) -> Mapping[str, AnyField]:
    found: Mapping[str, AnyField] = getattr(of, "fields", {})
    return found


# -- names and types --------------------------------------------------------------------------------------------------


def _unknown(given: Mapping[str, Any], declared: Mapping[str, AnyField]) -> Iterator[tuple[str, str]]:
    yield from unknown("field", given, declared)
    for name, field in declared.items():
        value = given.get(name)
        shape = field.child if isinstance(field, serializers.ListSerializer) else field
        if isinstance(shape, serializers.Serializer):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, Mapping):
                    yield from _unknown(each, shape.fields)


def _wrong_types(given: Mapping[str, Any], declared: Mapping[str, AnyField]) -> Iterator[tuple[str, str]]:
    for name, field in declared.items():
        if given.get(name) is not None:
            yield from itertools.islice(_wrong(name, given[name], field), limits.NAMED)


def _wrong(name: str, value: Any, field: AnyField) -> Iterator[tuple[str, str]]:
    types, words = _type_of(field)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and object not in types):
        yield name, f"{name} is {shortened(repr(value))}: it must be {words}"
    elif isinstance(field, serializers.BaseSerializer) and isinstance(value, dict):
        yield from _wrong_types(value, _fields(field))
    elif isinstance(field, serializers.DictField) and isinstance(field.child, serializers.CharField):
        for key, each in value.items():
            for _, words in _wrong(shortened(key), each, field.child):
                yield name, f"{name}: {words}"
    elif isinstance(field, (serializers.ListSerializer, serializers.ListField)) and field.child is not None:
        for number, each in enumerate(value, start=1):
            for inner, words in _wrong(name, each, field.child):
                yield (name, f"{name}, item {number}: {words}") if inner == name else (inner, words)


def _type_of(field: AnyField) -> tuple[tuple[type[Any], ...], str]:
    return next(((types, words) for kind, types, words in _TYPES if isinstance(field, kind)), _TEXT)


# -- sentences --------------------------------------------------------------------------------------------------------


def _sentences(name: str, field: AnyField, value: Any, errors: Any) -> Iterator[tuple[str, str]]:
    """Yield errors of a field by the name of the innermost field concerned."""
    if isinstance(errors, list) and all(isinstance(each, ErrorDetail) for each in errors):
        yield from ((name, _sentence(name, field, value, each)) for each in errors)
    elif isinstance(field, (serializers.ListField, serializers.ListSerializer)):
        child: Any = field.child
        if isinstance(errors, dict) and "non_field_errors" in errors:
            yield from _sentences(name, field, value, list(errors["non_field_errors"]))
            return
        for number, inner in errors.items() if isinstance(errors, dict) else enumerate(errors):
            for path, message in _sentences(name, child, value[number], inner) if inner else ():
                yield path, f"{name}, item {number + 1}: {message}"
    elif isinstance(errors, dict):
        for inner_name, inner in errors.items():
            inner_value = value.get(inner_name) if isinstance(value, dict) else None
            yield from _sentences(inner_name, _fields(field).get(inner_name, field), inner_value, inner)


def _sentence(name: str, field: Any, value: Any, error: ErrorDetail) -> str:
    if error.code in ("blank", "required"):
        return f"{name} is {'empty' if error.code == 'blank' else 'missing'}{_about(field)}"
    if error.code == "null":
        return f"{name} is null: it must be {_type_of(field)[1]}"
    if error.code == "invalid_choice":
        choices = ", ".join(str(choice) for choice in field.choices)
        return f"{name} is {shortened(repr(value))}: it must be one of {choices}"
    if error.code in ("min_value", "max_value"):
        return f"{name} is {value}: it must be {_type_of(field)[1]} {_range(field)}"
    if error.code in ("max_length", "min_length", "empty"):
        things = "items" if isinstance(value, list) else "characters"
        bound = f"at most {field.max_length:,}" if error.code == "max_length" else "at least one"
        return f"{name} has {len(value):,} {things}: it must have {bound}"
    return str(error) if name in str(error) else f"{name}: {error}"


def _about(field: Any) -> str:
    """Return the field's help text, for messages about a missing value."""
    return f": {field.help_text}" if field.help_text else ""


def _range(field: Any) -> str:
    return f"from {field.min_value:,} to {field.max_value:,}" if field.max_value is not None else "of 0 or more"
