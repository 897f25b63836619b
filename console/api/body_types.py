"""The values of a body have the types that the call's description declares, or the call is refused: `"only": "true"`
must not pass for false, and lift stops that were to stay.

Nothing is converted, as Django REST framework's own validation would (a text "5" to a number, "yes" to true). What is
null or left out is the call's own matter, as are ranges and names. A `JSONField` may be anything: attributes are
checked by their managed type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.fields import Field

from brokers import input_limits as limits
from brokers.input_checks import shortened

AnyField = Field[Any, Any, Any, Any]

#: The first that a field is an instance of counts: Python's types of its values, and in words.
_TYPES: tuple[tuple[type[Any], tuple[type[Any], ...], str], ...] = (
    (serializers.JSONField, (object,), "anything"),
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.ListSerializer, (list,), "a list"),
    (serializers.ListField, (list,), "a list"),
    (serializers.BaseSerializer, (dict,), "a JSON object"),
    (serializers.DictField, (dict,), "a JSON object"),
)
_TEXT = (str,), "text"  # all others: moments and choices are texts, too


def wrong_types(given: Mapping[str, Any], declared: Mapping[str, AnyField]) -> Iterator[tuple[str, str]]:
    """Each declared field with a value of another type, with a sentence; also of objects and lists inside."""
    for name, field in declared.items():
        if given.get(name) is not None:
            yield from itertools.islice(_wrong(name, given[name], field), limits.NAMED)


def _wrong(name: str, value: Any, field: AnyField) -> Iterator[tuple[str, str]]:
    types, words = next(((types, words) for kind, types, words in _TYPES if isinstance(field, kind)), _TEXT)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and object not in types):
        yield name, f"{name} is {shortened(repr(value))}: it must be {words}"
    elif isinstance(field, serializers.BaseSerializer) and isinstance(value, dict):
        yield from wrong_types(value, getattr(field, "fields", {}))
    elif isinstance(field, (serializers.ListSerializer, serializers.ListField)) and field.child is not None:
        for number, each in enumerate(value):
            for inner, words in _wrong(name, each, field.child):
                yield (name, f"{name}, item {number + 1}: {words}") if inner == name else (inner, words)
