"""The poller of one broker: reads what changes quickly and everything seldom, as `pace.py` says, and follows what the
broker reports. It ends only when cancelled: after a failure it connects again; until then the broker is unreachable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from brokers.adapters.adapter import Adapter
from brokers.adapters.inventory import Round
from brokers.adapters.observed import Observed
from brokers.adapters.pace import Pace, all_pace, changing_pace
from brokers.adapters.records import StoreError
from brokers.admin import AdminError, BrokerUnreachable

log = logging.getLogger("headgate.adapters")

Sleep = Callable[[float], Awaitable[None]]


class Poller:
    """`clock`: seconds of a steady clock. `sleep`: as of asyncio; tests have their own."""

    def __init__(
        self, adapter: Adapter, observed: Observed, *, clock: Callable[[], float], sleep: Sleep = asyncio.sleep
    ) -> None:
        self._adapter = adapter
        self._observed = observed
        self._clock = clock
        self._sleep = sleep
        self.changing = changing_pace()
        self.all = all_pace()
        self._retry = Pace(0, 0)
        self._said = ""  # why stops could not be brought in force in the last round

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self._adapter.connect()
                await self._read_all()
                self._retry = Pace(0, 0)
                await self._follow()
            except AdminError as error:
                self._lost(str(error))
            except Exception as error:  # an answer that no version was known to give: the others go on
                log.exception("reading the broker failed")
                self._lost(f"its answer cannot be read: {error!r}")
            self._retry.failed(self._clock())
            await self._sleep(max(0.0, self._retry.due - self._clock()))

    def _lost(self, why: str) -> None:
        if self._observed.feeds.unreachable != why:
            log.warning("unreachable: %s", why)
        self._observed.unreachable(why)

    async def _follow(self) -> None:
        """Read at both paces, and follow what the broker reports, until one of them fails."""
        reports = asyncio.ensure_future(self._take_reports())
        try:
            while True:
                await self._sleep(max(0.0, min(self.changing.due, self.all.due) - self._clock()))
                if self._clock() >= self.all.due:
                    await self._read_all()
                else:
                    await self._read_changing()
                if reports.done() and (error := reports.exception()) is not None:
                    raise error
        finally:
            reports.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await reports
            with suppress(StoreError):  # then the records have failed, and the broker is hosted again
                self._observed.reports_ended()

    async def _read_all(self) -> None:
        began, done = self._clock(), Round()
        with self._observed.freshness.request() as since:
            async for seen in self._adapter.read_all():
                done.add(seen)
                self._observed.apply(seen, since=since)
            self.all.answered(began, self._clock())
            self.changing.due = max(self.changing.due, self._clock())
            self._observed.end_round(done, self._observed.now(), since)
        self._observed.reachable()
        with suppress(BrokerUnreachable):  # the next read says so
            await self._maintain()
        self._observed.publish(self._observed.now())

    async def _maintain(self) -> None:
        said = ""
        try:
            await self._observed.stops.maintain(self._observed.now(), self._observed.percent)
        except BrokerUnreachable:
            raise
        except AdminError as error:
            said = str(error)
            if said != self._said:
                log.warning("the operators' stops cannot be brought in force: %s", said)
        self._said = said
        self._observed.show_stops()

    async def _read_changing(self) -> None:
        began = self._clock()
        with self._observed.freshness.request() as since:
            self._observed.apply(await self._adapter.read_changing(), since=since)
        self.changing.answered(began, self._clock())
        self._observed.publish(self._observed.now())

    async def _take_reports(self) -> None:
        async for event in self._adapter.reported():
            self._observed.reported(event)
