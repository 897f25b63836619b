"""How often a client may try to sign in: after some failures a pause, which doubles with each further one.

Counted for each remote address and user, so that no client can lock another one out from afar, and, with a higher
limit, for each address alone, against trying one password on many users; this machine's own addresses are spared the
latter, since all of its programs share them. Users whose secret is generated are *exempt*: 256 bits are not guessed,
and a program that tried could lock them out from the address that they share. What wrong passwords cost the broker is
bounded apart from that: an address gets `CHECKED` of them checked in a second.

Pure: time (ms, of any clock that goes forward) is a parameter, and no more than `MOST` counters are kept, of which the
one that failed longest ago goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from brokers.loopback import is_loopback

#: Failures without a pause, of a user from an address, and of all users from an address.
FREE, FREE_OF_ADDRESS = 5, 50
#: The first pause and the longest one, ms.
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 300_000
#: Silence after which failures are forgotten, ms; longer than the longest pause.
FORGOTTEN_MS = 900_000
#: Wrong passwords from one address that are checked in a second (2 ms each); further attempts are refused unseen.
CHECKED = 50
#: Counters kept.
MOST = 10_000
#: Characters of a name that count: longer ones with the same beginning count as one.
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
        self._failures: dict[_Key, _Failures] = {}  # the one that failed longest ago first
        self._checked: dict[str, tuple[int, int]] = {}  # address -> when its second began, wrong ones in it

    def __len__(self) -> int:
        return len(self._failures)

    def wait_ms(self, address: str, user: str, now: int) -> int:
        """How long this user's attempts from this address are refused without being looked at; 0: try."""
        if user in self.exempt:
            return 0
        until = max(
            (known.pause_until(free) for key, free in _keys(address, user) if (known := self._known(key, now))),
            default=0,
        )
        return max(0, until - now)

    def check_wait_ms(self, address: str, user: str, now: int) -> int:
        """How long no further password from this address is checked; 0: check it."""
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
    """The attempts from one remote address. `clock`: steady, in ms: a clock that is set must neither end a pause nor
    make it last."""

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
    """What is counted, each with its failures that are free."""
    keys: list[tuple[_Key, int]] = [((address, user[:_LENGTH]), FREE)]
    if not is_loopback(address):
        keys.append(((address, None), FREE_OF_ADDRESS))
    return keys
