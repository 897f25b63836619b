"""The rules for names of new queues, exchanges and virtual hosts: see `model/new_names.py`."""

from __future__ import annotations

from brokers.admin import InvalidValue
from brokers.input_limits import NAME as MAX_NAME
from brokers.model.new_names import new_name_fault as name_fault

__all__ = ["MAX_NAME", "check_name", "name_fault"]


def check_name(what: str, name: str) -> None:
    """Raise InvalidValue, with a sentence that quotes the name, unless a new object may have it."""
    if fault := name_fault(what, name):
        raise InvalidValue({"name": fault})
