"""Refusals of connections and links, as AMQP error conditions with details."""

from __future__ import annotations

from typing import Any

from proton import symbol

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.engine.registry.connection import ContainerInUse
from brokers.engine.services.temporary import TooMany

_CONDITIONS: dict[type[AdminError], str] = {
    NotFound: "amqp:not-found",
    NotAllowed: "amqp:unauthorized-access",
    InvalidValue: "amqp:invalid-field",
    AlreadyExists: "amqp:resource-locked",
    ContainerInUse: "amqp:invalid-field",
    TooMany: "amqp:resource-limit-exceeded",
    AdminError: "amqp:internal-error",  # such as a store that cannot be opened: for an operator to mend
}


class Refused(Exception):
    """A link is refused. `condition` is an AMQP error condition, `info` its details."""

    def __init__(self, condition: str, description: str, info: dict[Any, Any] | None = None) -> None:
        super().__init__(description)
        self.condition = condition
        self.info = info


def condition_of(refused: AdminError | Refused) -> tuple[str, dict[Any, Any] | None]:
    """Return the error condition, and its details if it has any."""
    if isinstance(refused, Refused):
        return refused.condition, refused.info
    info = {symbol("invalid-field"): symbol("container-id")} if isinstance(refused, ContainerInUse) else None
    return next(_CONDITIONS[kind] for kind in type(refused).__mro__ if kind in _CONDITIONS), info
