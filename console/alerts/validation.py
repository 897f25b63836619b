"""Checks that changes to rules and receivers share: names, unique names, and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError
from django.db.models import F

from brokers.admin import InvalidValue, NotFound, StaleVersion
from brokers.input_checks import label_fault
from console.alerts.models import Receiver, Rule


class unique:
    """Context manager that turns a violated unique constraint into InvalidValue."""

    def __init__(self, field: str, value: str) -> None:
        self._field, self._value = field, value

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, IntegrityError):
            raise InvalidValue({self._field: f"{self._value!r} already exists"}) from error


def save_next_version(found: Any, thing: Rule | Receiver, values: Mapping[str, Any]) -> None:
    """Save `values` as the next version. `found`: the row, if it has the version that was read. Raises StaleVersion,
    NotFound."""
    if not found.update(**values, version=F("version") + 1):
        now = type(thing)._default_manager.filter(pk=thing.pk).first()
        if now is None:
            raise NotFound(f"{thing.name} has been deleted")
        raise StaleVersion(f"{thing.name} has changed since you read it: read it again", now.version)


def check_name(given: Mapping[str, Any], wrong: dict[str, str]) -> str:
    """Return the name without blanks around it, and put a fault into `wrong`."""
    name: str = given["name"].strip()
    if fault := label_fault("name", name, 100):
        wrong["name"] = fault
    return name
