"""Audit entries of sign-ins, sign-outs and failed sign-ins, with a password and through single sign-on.

They name no broker, so administrators of all brokers read them. Requests with API tokens are no sign-ins. Failed ones
need no account, so their number is limited: by address, and in all. A name is recorded as it was entered if it could be
the name of a user; a password in the field of the name mostly could not, and a given password is recorded nowhere.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.utils import timezone

from console.audit.models import AuditEntry, Outcome

SIGN_IN, SIGN_OUT = "sign-in", "sign-out"
#: Failed sign-ins that are recorded within `WINDOW`: from one address, and in all.
MOST_OF_ADDRESS, MOST = 20, 100
WINDOW = dt.timedelta(minutes=10)
#: Programs send a password with each request: one entry within this time.
ONCE_WITHIN = dt.timedelta(hours=1)
#: A clock that was set back must not end the recording: entries of the future do not count.
_SLACK = dt.timedelta(seconds=30)
_LONGEST_NAME = 64
_NAME = re.compile(r"[\w.@+-]+")
#: In place of what cannot be the name of a user: names of users have no brackets.
UNKNOWN = "(unknown)"


def record_sign_in(request: HttpRequest, user: User, way: str, *, repeated: bool = False) -> None:
    """`way`: such as `with a password`. `repeated`: see `ONCE_WITHIN`. Call it in the transaction that signs in. Raises
    what the database raises: no sign-in is without an entry."""
    address, now = _address(request), timezone.now()
    entry = _entry(request, SIGN_IN, user.get_username(), Outcome.DONE, way, user=user)
    if repeated:
        recent = AuditEntry.objects.filter(user=user, user_name=user.get_username(), operation=SIGN_IN)
        recent = recent.filter(outcome=Outcome.DONE, source_address=address, at__gt=now - ONCE_WITHIN)
        if recent.filter(at__lte=now + _SLACK).exists():
            return
    entry.save_or_log()


def record_sign_out(request: HttpRequest, user: AbstractBaseUser | AnonymousUser) -> None:
    """`user`: who was signed in. An entry that cannot be written is logged: it must not prevent a sign-out."""
    if isinstance(user, User):
        with suppress(Exception):
            _entry(request, SIGN_OUT, user.get_username(), Outcome.DONE, "", user=user).save_or_log()


def record_failure(request: HttpRequest, name: str, why: str, outcome: Outcome = Outcome.REFUSED) -> None:
    """Record a failed sign-in, unless too many have been recorded. `name`: as it was entered; empty: not known."""
    now = timezone.now()
    recent = AuditEntry.objects.filter(operation=SIGN_IN, outcome__in=(Outcome.REFUSED, Outcome.FAILED))
    recent = recent.filter(at__gt=now - WINDOW, at__lte=now + _SLACK)
    of_address, in_all = recent.filter(source_address=_address(request)).count(), recent.count()
    if of_address >= MOST_OF_ADDRESS or in_all >= MOST:
        return
    if in_all + 1 == MOST or of_address + 1 == MOST_OF_ADDRESS:
        of = "" if in_all + 1 == MOST else " from this address"
        why += f"; it is the last that is recorded: more than {MOST if not of else MOST_OF_ADDRESS} failed{of} within"
        why += f" {WINDOW.seconds // 60} minutes"
    with suppress(Exception):  # it is logged, and the answer is the same
        _entry(request, SIGN_IN, _shown(name), outcome, why).save_or_log()


def _shown(name: str) -> str:
    name = name.strip()[:_LONGEST_NAME]
    return name if _NAME.fullmatch(name) else UNKNOWN


def _address(request: HttpRequest) -> str:
    return request.META.get("REMOTE_ADDR") or ""


def _entry(
    request: HttpRequest, operation: str, name: str, outcome: Outcome, detail: str, *, user: User | None = None
) -> AuditEntry:
    return AuditEntry(
        user=user,
        user_name=name,
        source_address=_address(request),
        broker="",
        object=f"user {name}",
        operation=operation,
        outcome=outcome,
        detail=detail,
    )
