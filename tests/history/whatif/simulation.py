"""An oracle for the replay: a queue simulated in steps of 0.1 s over arrivals and services. It shares no code with it.

What the replay is given are the samples (one a second) and the minutes that are recorded of a simulation under the
limits in force, never the arrivals. Producers either drop what they may not send (`send=None`), or send it later, at
`send` messages/s at most, as AMQP producers do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

Floats = npt.NDArray[np.float64]

STEP = 0.1
SIZE = 100  # bytes of a message
START = 1_700_000_040_000  # ms, a whole minute


@dataclass(frozen=True, slots=True)
class Load:
    """Messages that producers want to send, and that consumers can take, in each step."""

    arrivals: Floats
    services: Floats


@dataclass(frozen=True, slots=True)
class Run:
    """The state after each step: depth, totals in and out, overfull seconds, whether overfull; n + 1 values, the first
    at the start."""

    depth: Floats
    came: Floats
    went: Floats
    blocked: Floats
    overfull: npt.NDArray[np.bool_]

    @property
    def blocked_seconds(self) -> float:
        return float(self.blocked[-1])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _steps(  # noqa: PLR0917 - compiled: no keywords
    arrivals: Floats, services: Floats, stop: float, resume: float, send: float, in_flight: float
) -> tuple[Floats, Floats, Floats, Floats, npt.NDArray[np.bool_]]:  # pragma: no cover - compiled
    n = len(arrivals)
    depths, sent, taken, blocked = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    overfull = np.zeros(n + 1, np.bool_)
    depth, came, went, unsent, closed, is_overfull = 0.0, 0.0, 0.0, 0.0, 0.0, False
    for k in range(n):
        wanted, begin, was_overfull, offered = arrivals[k], depth, is_overfull, 0.0
        if is_overfull:
            unsent += wanted
            now = 0.0
        else:
            now = wanted
            if send > 0:
                now = min(wanted + unsent, max(wanted, send * 0.1))
            offered = now
            now = min(now, max(stop + in_flight - depth, 0.0))
            unsent += wanted - now
        if send <= 0:
            unsent = 0.0
        depth += now
        out = min(depth, services[k])
        depth -= out
        came += now
        went += out
        if depth > stop:
            is_overfull = True
        elif depth <= resume:
            is_overfull = False
        # The levels are crossed within a step.
        if was_overfull:
            closed += 0.1 if is_overfull else 0.1 * min(max(begin - resume, 0.0) / out, 1.0) if out > 0 else 0.0
        elif is_overfull and offered > out:
            closed += 0.1 * (1 - min(max(stop - begin, 0.0) / (offered - out), 1.0))
        depths[k + 1], sent[k + 1], taken[k + 1], blocked[k + 1], overfull[k + 1] = (
            depth,
            came,
            went,
            closed,
            is_overfull,
        )
    return depths, sent, taken, blocked, overfull


def simulate(load: Load, stop: float, resume: float, send: float | None) -> Run:
    """Return the run of the load under a capacity in messages. `send`: messages/s at which producers send later what
    they could not; None: they drop it."""
    return Run(*_steps(load.arrivals, load.services, stop, resume, send or 0.0, 10.0))


def samples(run: Run, stop: float, resume: float) -> dict[str, Floats]:
    """Return what the recorder writes of the run: a sample a second."""
    every = slice(0, None, round(1 / STEP))
    depth = np.floor(run.depth[every])
    return {
        "ms": START + np.arange(len(depth)) * 1000.0,
        "depth_messages": depth,
        "depth_bytes": depth * SIZE,
        "enqueued_messages": np.floor(run.came[every]),
        "dequeued_messages": np.floor(run.went[every]),
        "overfull": run.overfull[every],
        "overfull_ms": np.round(run.blocked[every] * 1000),
        "stop_messages": np.full(len(depth), float(stop)),
        "resume_messages": np.full(len(depth), float(resume)),
    }


def minutes(run: Run, stop: float, resume: float) -> dict[str, Floats]:
    """Return the rollups of the run by minute, as the pipeline makes them of samples and episodes."""
    one_second, minute = samples(run, stop, resume), 60
    count = (len(one_second["ms"]) - 1) // minute
    depth = one_second["depth_messages"][: count * minute].reshape(count, minute)
    edges = np.arange(count + 1) * minute

    def grown(name: str) -> Floats:
        return np.diff(one_second[name][edges])

    steps = minute * round(1 / STEP)
    begun = (~run.overfull[:-1] & run.overfull[1:])[: count * steps].reshape(count, steps).sum(axis=1)
    return {
        "ms": one_second["ms"][edges[:-1]],
        "messages_mean": depth.mean(axis=1),
        "bytes_mean": depth.mean(axis=1) * SIZE,
        "messages_max": depth.max(axis=1),
        "bytes_max": depth.max(axis=1) * SIZE,
        "messages_in": grown("enqueued_messages"),
        "messages_out": grown("dequeued_messages"),
        "overfull_ms": grown("overfull_ms"),
        "stopped_ms": np.zeros(count),
        "episodes": begun.astype(float),
        "stop_messages": np.full(count, float(stop)),
        "resume_messages": np.full(count, float(resume)),
        "stop_bytes": np.zeros(count),
        "resume_bytes": np.zeros(count),
    }


# -- loads ------------------------------------------------------------------------------------------------------------


def _rates(seconds: int, base: float) -> Floats:
    return np.full(seconds * round(1 / STEP), base * STEP)


def _every(rates: Floats, period: float, lasting: float, rate: float, first: float = 0.0) -> Floats:
    at = np.arange(len(rates)) * STEP
    return np.where((at >= first) & ((at - first) % period < lasting), rate * STEP, rates)


def loads(seconds: int = 3600) -> dict[str, Load]:
    """Return an hour of each kind of load; in most of them the consumers take 20 messages/s."""
    taken = _rates(seconds, 20)
    random = np.random.default_rng(7)
    slow_noise = np.repeat(np.exp(random.normal(0, 0.8, seconds // 15 + 1)), 150)[: len(taken)]
    noisy = random.poisson(14 * slow_noise / slow_noise.mean() * STEP).astype(float)
    at = np.arange(len(taken)) * STEP
    return {
        "quiet": Load(_rates(seconds, 10), taken),
        "steady overload": Load(_rates(seconds, 50), taken),
        "slow consumer": Load(_rates(seconds, 25), taken),
        "no consumer": Load(_rates(seconds, 10), _rates(seconds, 0)),
        "bursts": Load(_every(_rates(seconds, 5), 127.3, 20, 60, first=40), taken),
        "high bursts": Load(_every(_rates(seconds, 3), 311.7, 20, 150, first=40), taken),
        "stalls": Load(_rates(seconds, 10), _every(_rates(seconds, 40), 613, 60, 0, first=200)),
        "one-off overload": Load(np.where((at >= 600) & (at < 1200), 40, 10) * STEP, taken),
        "consumer away": Load(_rates(seconds, 10), np.where((at >= 600) & (at < 1000), 0, 50) * STEP),
        "noise": Load(noisy, taken),
    }
