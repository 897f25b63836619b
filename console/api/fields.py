"""Request fields that are stricter, or better described in OpenAPI, than those of Django REST framework."""

from __future__ import annotations

import copy
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from brokers.admin import InvalidValue
from brokers.model import ObjectName
from console.intake.times import parse_time


class TextField(serializers.CharField):
    """Text without trimming. A required text must not be empty, unless the field has `allow_blank`; OpenAPI describes
    this as `minLength`. For an optional text, empty means omitted."""

    def __init__(self, help_text: str = "", **options: Any) -> None:
        optional = "default" in options or options.get("required") is False
        options.setdefault("allow_blank", optional)
        if not options["allow_blank"]:
            options.setdefault("min_length", 1)
        super().__init__(help_text=help_text, trim_whitespace=False, **options)


class ObjectNameField(TextField):
    """An object name, parsed from text."""

    def run_validation(self, data: Any = serializers.empty) -> ObjectName:
        text = super().run_validation(data)  # first, since the length limits apply to the text
        try:
            return ObjectName.parse(text)
        except ValueError as error:
            raise serializers.ValidationError(str(error)) from None


class FlagField(serializers.BooleanField):
    """True or false. Omitted: the default, which is false unless set. Null is refused."""

    def __init__(self, help_text: str = "", **options: Any) -> None:
        if "required" not in options:
            options.setdefault("default", False)
        super().__init__(help_text=help_text, **options)


class CountField(serializers.IntegerField):
    """A whole number of 0 or more. Omitted or null: 0, which means none."""

    def __init__(self, help_text: str = "", **options: Any) -> None:
        options = {"default": 0, "allow_null": True, "min_value": 0, **options}
        super().__init__(help_text=help_text, **options)

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        done, value = super().validate_empty_values(data)
        return (True, 0) if done and value is None else (done, value)


@extend_schema_field(
    {"oneOf": [{"type": "integer", "format": "int64"}, {"type": "string", "example": "2026-11-22T09:30:00Z"}]}
)
class MomentField(serializers.JSONField):
    """A time as ms since the epoch or ISO 8601 with a zone; the value is ms since the epoch. Empty: omitted (None)."""

    def to_internal_value(self, data: Any) -> int | None:  # type: ignore[override]  # as DRF's own fields do
        if not isinstance(data, (int, str)) or isinstance(data, bool):
            raise serializers.ValidationError(f"{self.field_name} is {data!r}: it must be ms since the epoch or text")
        text = str(data).strip()
        if not text:
            return None
        try:
            return parse_time(self.field_name or "it", text)
        except InvalidValue as error:
            raise serializers.ValidationError(next(iter(error.errors.values()))) from None


def change_of(name: str, shape: type[serializers.Serializer[Any]], *leave_out: str, **more: Any) -> Any:
    """Return the serializer of a partial update of `shape`: every field is optional; omitted means unchanged."""
    fields = {field: _optional(of) for field, of in shape().fields.items() if field not in leave_out}
    return type(name, (serializers.Serializer,), {**fields, **more})


def _optional(field: Any) -> Any:
    """Return a copy of the field that is optional. DRF keeps each field's arguments for copies."""
    options = {name: copy.deepcopy(value) for name, value in field._kwargs.items() if name != "default"}
    if isinstance(field, TextField):
        options["allow_blank"] = field.allow_blank
    return type(field)(*field._args, **{**options, "required": False})
