"""Try the addresses of a broker of another kind with its credentials, and report what is found and what is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from brokers.adapters.adapter import Finding
from brokers.adapters.http import NotTrusted
from brokers.adapters.kinds import KINDS, Account, single_addresses
from brokers.adapters.several_addresses import other_broker
from brokers.admin import AdminError, BrokerUnreachable

#: Time for a test, s.
TEST_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _Tried:
    """An address: `identity`, as of its adapter; whether it can be connected to, and whether it does not answer, as
    the one that waits of a pair."""

    url: str
    findings: Sequence[Finding]
    identity: str = ""
    connects: bool = True
    waits: bool = False


async def findings(kind: str, account: Account) -> list[Finding]:
    """Connect to every address. With several, one that does not answer is no fault while another does: of a pair, one
    waits. One that refuses the user, is not trusted, is something else or another broker is a fault."""
    tried = await asyncio.gather(*(_try(kind, each) for each in single_addresses(account)))
    if len(tried) == 1:
        return list(tried[0].findings)
    first = next((each for each in tried if each.connects), None)
    return [finding for each in tried for finding in _of_several(each, first)]


def _of_several(tried: _Tried, first: _Tried | None) -> list[Finding]:
    """Return the findings of one of several addresses. `first`: the first that can be connected to."""
    named = [_named(tried.url, each) for each in tried.findings]
    if first is None:
        return named
    if tried.waits:
        return [Finding(f"{tried.url} is not in use now: {each.fault}") for each in tried.findings]
    if fault := other_broker(tried.identity, first.identity):
        return [*named, Finding("", f"{tried.url} {fault} as {first.url}")]
    return named


def _named(url: str, finding: Finding) -> Finding:
    """Name the address in a finding that does not name it itself."""
    said = (finding.text, finding.fault)
    return Finding(*(f"{url}: {each}" if each and url not in each else each for each in said))


async def _try(kind: str, account: Account) -> _Tried:
    adapter = KINDS[kind].open(account, lambda: time.time_ns() // 1_000_000)
    try:
        async with asyncio.timeout(TEST_SECONDS):
            found = await adapter.connect()
        return _Tried(account.url, found, adapter.identity)
    except TimeoutError:
        fault, waits = f"no answer from {account.url} within {TEST_SECONDS:g} s", True
    except AdminError as error:
        fault, waits = str(error), isinstance(error, BrokerUnreachable) and not isinstance(error, NotTrusted)
    except Exception as error:  # an answer that no version of the broker was known to give
        fault, waits = f"{account.url} does not answer as {KINDS[kind].title} does ({type(error).__name__})", False
    finally:
        await adapter.close()
    return _Tried(account.url, [Finding("", fault)], connects=False, waits=waits)
