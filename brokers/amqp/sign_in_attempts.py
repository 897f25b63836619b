"""The limits of sign-in attempts: after some failures a pause, which doubles with each further failure.

Failures are counted by remote address and user, so that a remote client cannot lock out another one, and, with a higher
limit, by address alone, against one password tried on many users. Loopback addresses are exempt from the latter, since
all local programs share them. Users with a generated secret are *exempt*: 256 bits cannot be guessed, and a program
that tried could lock them out from the address that they share. The cost of wrong passwords has a limit of its own:
`CHECKED` per address and second.

Pure: time (ms, of any monotonic clock) is a parameter. There are at most `MOST` counters; the one with the oldest
last failure is dropped first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.loopback import is_loopback

#: Failures without a pause, of a user from an address, and of all users from an address.
FREE, FREE_OF_ADDRESS = 5, 50
#: The first pause and the longest one, ms.
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 300_000
#: Time after the last failure when failures are forgotten, ms; longer than the longest pause.
FORGOTTEN_MS = 900_000
#: Wrong passwords from one address that are checked per second (2 ms each); further attempts are refused unchecked.
CHECKED = 50
#: Maximum number of counters.
MOST = 10_000
#: Significant characters of a name: longer ones with the same beginning count as one.
_LENGTH = 64


#: Remote address and user; None: all users.
_Key = tuple[str, str | None]


@dataclass(slots=True)
class _Failures:
    count: int
    last: int  # ms

    def pause_until(self, free: int) -> int:
        if self.count < free:
            return 0
        return self.last + min(FIRST_PAUSE_MS << min(self.count - free, 20), LONGEST_PAUSE_MS)


class SignInAttempts:
    """See the module."""

    def __init__(self) -> None:
        self.exempt: set[str] = set()  # names of users
        self._failures: dict[_Key, _Failures] = {}  # by last failure, the oldest first
        self._checked: dict[str, tuple[int, int]] = {}  # address -> begin of its second, wrong passwords in it

    def __len__(self) -> int:
        return len(self._failures)

    def wait_ms(self, address: str, user: str, now: int) -> int:
        """Return for how many ms this user's attempts from this address are refused unchecked; 0: not refused."""
        if user in self.exempt:
            return 0
        until = max(
            (known.pause_until(free) for key, free in _keys(address, user) if (known := self._known(key, now))),
            default=0,
        )
        return max(0, until - now)

    def check_wait_ms(self, address: str, user: str, now: int) -> int:
        """Return for how many ms no further password from this address is checked; 0: check it."""
        began, wrong = self._checked.get(address, (now, 0))
        return max(0, began + 1_000 - now) if wrong >= CHECKED and user not in self.exempt else 0

    def failed(self, address: str, user: str, now: int) -> None:
        if user in self.exempt:
            return
        began, wrong = self._checked.pop(address, (now, 0))
        self._checked[address] = (began, wrong + 1) if now - began < 1_000 else (now, 1)
        while len(self._checked) > MOST:
            del self._checked[next(iter(self._checked))]
        for key, _ in _keys(address, user):
            known = self._known(key, now)
            self._failures.pop(key, None)
            self._failures[key] = _Failures(known.count + 1 if known else 1, now)
        while len(self._failures) > MOST:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str, user: str) -> None:
        self._failures.pop((address, user[:_LENGTH]), None)

    def _known(self, key: _Key, now: int) -> _Failures | None:
        known = self._failures.get(key)
        return known if known and now - known.last < FORGOTTEN_MS else None


class AttemptsFrom:
    """The attempts from one remote address. `clock`: steady, in ms: setting the machine's clock must neither end nor
    prolong a pause."""

    def __init__(self, attempts: SignInAttempts, address: str, clock: Callable[[], int]) -> None:
        self._attempts = attempts
        self._address = address
        self._clock = clock

    def wait_ms(self, user: str) -> int:
        return self._attempts.wait_ms(self._address, user, self._clock())

    def check_wait_ms(self, user: str) -> int:
        return self._attempts.check_wait_ms(self._address, user, self._clock())

    def failed(self, user: str) -> None:
        self._attempts.failed(self._address, user, self._clock())

    def succeeded(self, user: str) -> None:
        self._attempts.succeeded(self._address, user)


def _keys(address: str, user: str) -> list[tuple[_Key, int]]:
    """Return the counters of an attempt, each with its number of failures without a pause."""
    keys: list[tuple[_Key, int]] = [((address, user[:_LENGTH]), FREE)]
    if not is_loopback(address):
        keys.append(((address, None), FREE_OF_ADDRESS))
    return keys
