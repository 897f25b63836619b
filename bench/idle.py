"""What Headgate costs at rest: `manage.py up` with a fresh data folder, without clients.

    uv run python bench/idle.py [--minutes 10] [--settle 60] [--port 23300]

Starts it, waits until it is ready and for `--settle` seconds, then measures for some minutes: the processor time of
each process, in % of one core, and its memory as PSS (shared pages are divided among the processes that share them;
Linux), mean and maximum. Prints a table, and whether the sums are below 1 % and 450 MB.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
#: The limits: % of a core, and bytes.
MOST_CPU, MOST_PSS = 1.0, 450e6
#: Seconds between two samples of the memory.
EVERY = 5.0


@dataclass
class Cost:
    """`cpu`: seconds within the measurement; `pss`: bytes, of each sample."""

    cpu: float = 0.0
    pss: list[int] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--settle", type=float, default=60.0, help="seconds after the start (default: 60)")
    parser.add_argument("--port", type=int, default=23300, help="of the console; AMQP has the next one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, str(ROOT / "manage.py"), "up", "--data", data]
        command += ["--port", str(options.port), "--amqp-port", str(options.port + 1)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as up:
            try:
                wait_until_ready(up, options.port)
                time.sleep(options.settle)  # what a start costs is not measured
                costs = measure(psutil.Process(up.pid), options.minutes * 60)
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait(30)
    return report(costs, options.minutes)


def wait_until_ready(up: subprocess.Popen[bytes], port: int) -> None:
    while True:
        if up.poll() is not None:
            raise SystemExit(f"manage.py up has ended with exit status {up.returncode}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=10).close()
        except (TimeoutError, urllib.error.URLError, OSError):
            time.sleep(0.5)  # a poll of a separate process
        else:
            return


def measure(up: psutil.Process, seconds: float) -> dict[str, Cost]:
    costs: dict[str, Cost] = {}
    seen: dict[psutil.Process, tuple[str, float]] = {}
    began = time.monotonic()
    for process in family(up):
        seen[process] = (name_of(process, up), processor(process))
    while (elapsed := time.monotonic() - began) < seconds:
        time.sleep(min(EVERY, seconds - elapsed))  # between two samples
        now: dict[str, int] = {}
        for process in family(up):
            try:
                name, before = seen.get(process) or (name_of(process, up), 0.0)
                used = processor(process)
                pss = process.memory_full_info().pss
            except psutil.Error:
                continue
            cost = costs.setdefault(name, Cost())
            cost.cpu += used - before
            seen[process] = name, used
            now[name] = now.get(name, 0) + pss
        for name, pss in now.items():
            costs[name].pss.append(pss)
        costs.setdefault("", Cost()).pss.append(sum(now.values()))
    return costs


def family(up: psutil.Process) -> list[psutil.Process]:
    return [up, *up.children(recursive=True)]


def processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def name_of(process: psutil.Process, up: psutil.Process) -> str:
    """Return the command of manage.py, or the program."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return "?"
    if process == up:
        return "up"
    for number, word in enumerate(words):
        if word.endswith("manage.py") and number + 1 < len(words):
            return " ".join(words[number + 1 : number + 3]) if "--session" in words else words[number + 1]
    return Path(words[0]).name if words else "?"


def report(costs: dict[str, Cost], minutes: float) -> int:
    total = costs.pop("")
    print(f"{minutes:g} minutes, Python {sys.version.split()[0]}, {os.cpu_count()} processors")
    print(f"{'process':<20}{'CPU s/min':>10}{'% of a core':>13}{'PSS MB':>9}{'max':>7}")
    for name, cost in sorted(costs.items(), key=lambda each: -each[1].cpu):
        mean = sum(cost.pss) / len(cost.pss) / 1e6
        percent = cost.cpu / minutes / 0.6
        print(f"{name:<20}{cost.cpu / minutes:>10.3f}{percent:>13.2f}{mean:>9.0f}{max(cost.pss) / 1e6:>7.0f}")
    cpu, mean, most = sum(cost.cpu for cost in costs.values()), sum(total.pss) / len(total.pss), max(total.pss)
    percent = cpu / minutes / 0.6
    print(f"{'all':<20}{cpu / minutes:>10.3f}{percent:>13.2f}{mean / 1e6:>9.0f}{most / 1e6:>7.0f}")
    good = percent < MOST_CPU and mean < MOST_PSS
    print(f"below {MOST_CPU:g} % and {MOST_PSS / 1e6:g} MB: {'yes' if good else 'no'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
