"""Who acts, and from where."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from brokers.managed import ObjectName

#: The permission that every change of a broker needs, but for those of `_STRICTER`.
OPERATE = "audit.operate"
#: The permission to change who may do what at a broker: whoever has it could give themselves everything else.
ADMINISTER = "audit.administer"

_STRICTER = {"User": ADMINISTER}
_ROLES = {OPERATE: "operator", ADMINISTER: "administrator"}


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

    def check_may_change(self, name: ObjectName) -> None:
        """Raises PermissionDenied unless this person may change objects of that type."""
        user, permission = self.user, _STRICTER.get(name.type, OPERATE)
        if not (isinstance(user, PermissionsMixin) and user.has_perm(permission)):
            raise PermissionDenied(
                f"{self.name} may look at {name} but not change it: that needs the role of {_ROLES[permission]}"
            )
