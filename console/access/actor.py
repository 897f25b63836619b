"""The user who makes a change, and the address of the request."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.access.models import ApiToken
from console.access.user_rights import request_rights, user_rights
from console.permissions.rights import Need, Rights


@dataclass(frozen=True, slots=True)
class Actor:
    """`user`: a Django user; `address`: source of the request. `granted`: the permissions to use, such as those of a
    token; None: the user's current permissions, read from the database each time. `token`: the API token of the
    request, if it has one."""

    user: AbstractBaseUser | AnonymousUser
    address: str = ""
    granted: Rights | None = None
    token: ApiToken | None = None

    @classmethod
    def of(cls, request: HttpRequest) -> Actor:
        address, token = request.META.get("REMOTE_ADDR") or "", getattr(request, "auth", None)
        where = f"{address}, token {token}" if token else address
        used = token if isinstance(token, ApiToken) else None
        return cls(request.user, where[:64], request_rights(request), used)

    @property
    def name(self) -> str:
        return self.user.get_username()

    @property
    def rights(self) -> Rights:
        return user_rights(self.user) if self.granted is None else self.granted

    def check(self, broker: str, need: Need, what: object, *, act: str = "change") -> None:
        """Check the permission to `act` on `what`. Raises PermissionDenied."""
        if missing := self.rights.missing(broker, need):
            raise PermissionDenied(f"{self.name} may not {act} {what}: that needs {missing}")
