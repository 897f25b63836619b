"""Who acts, and from where."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin
from django.http import HttpRequest

#: The permission that every change of a broker needs.
OPERATE = "audit.operate"


@dataclass(frozen=True, slots=True)
class Actor:
    """`user` is a user of Django; `address` where the request came from."""

    user: AbstractBaseUser | AnonymousUser
    address: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> Actor:
        return cls(request.user, request.META.get("REMOTE_ADDR") or "")

    @property
    def name(self) -> str:
        return self.user.get_username()

    @property
    def may_operate(self) -> bool:
        user = self.user
        return isinstance(user, PermissionsMixin) and user.has_perm(OPERATE)
