"""Staged starts of one destination: the stops that are being lifted in stages, and the credit that their rates
allow."""

from __future__ import annotations

from brokers.engine.flow.credit import CreditLedger
from brokers.engine.flow.pacing import Pacer
from brokers.engine.flow.turn import Turn
from brokers.engine.values.limits import UNLIMITED
from brokers.engine.values.stops import Scope, Stop


class Staging:
    """`staged`: the stops in a staged start, by scope. They limit the rate of credit, and do not block."""

    __slots__ = ("_ledger", "_pacer", "_turn", "staged")

    def __init__(self, turn: Turn, ledger: CreditLedger) -> None:
        self._turn = turn
        self._ledger = ledger
        self._pacer: Pacer | None = None  # while `staged` is not empty
        self.staged: dict[Scope, Stop] = {}

    def begin(self, stop: Stop) -> None:
        """Begin the staged start of a stop."""
        self.staged[stop.scope] = stop
        if self._pacer is None:
            self._pacer = Pacer(self._turn.now, self._ledger.granted)

    def end(self, scope: Scope) -> bool:
        """End the staged start of a scope. Return False if there is none."""
        if self.staged.pop(scope, None) is None:
            return False
        if not self.staged:
            self._pacer = None
        return True

    def allowance(self) -> int:
        """Return the credit that the slowest staged start allows now; UNLIMITED without one."""
        now = self._turn.now
        rates = [rate for stop in self.staged.values() if stop.stage and (rate := stop.stage.rate_at(now)) is not None]
        if self._pacer is None or not rates:
            return UNLIMITED
        return self._pacer.allowance(min(rates), now, self._ledger.granted)
