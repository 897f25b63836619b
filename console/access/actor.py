"""Who acts, and from where."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.access.people import rights_in, rights_of
from console.permissions.rights import Need, Rights


@dataclass(frozen=True, slots=True)
class Actor:
    """`user` is a user of Django; `address` where the request came from. `granted`: what they may, if that is less
    than the user's rights or is known already; else those are looked up each time."""

    user: AbstractBaseUser | AnonymousUser
    address: str = ""
    granted: Rights | None = None

    @classmethod
    def of(cls, request: HttpRequest) -> Actor:
        address, token = request.META.get("REMOTE_ADDR") or "", getattr(request, "auth", None)
        where = f"{address}, token {token}" if token else address
        return cls(request.user, where[:64], rights_in(request))

    @property
    def name(self) -> str:
        return self.user.get_username()

    @property
    def rights(self) -> Rights:
        return rights_of(self.user) if self.granted is None else self.granted

    def check(self, broker: str, need: Need, what: object) -> None:
        """Raises PermissionDenied unless this person may do what needs that; `what` they want to change."""
        if missing := self.rights.missing(broker, need):
            raise PermissionDenied(f"{self.name} may not change {what}: that needs {missing}")
