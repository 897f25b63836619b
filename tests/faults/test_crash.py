"""kill -9 under load, repeatedly: the broker's promises hold after each start.

No accepted durable message is missing, none that a consumer settled comes back, and a producer's messages keep their
order. The same on a disk that is full half of the time.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.nursery import nursery
from tests.faults.queues import browse, set_up
from tests.faults.traffic import Promises, Traffic

KILLS = 50

log = logging.getLogger(__name__)


@pytest.mark.domain("9 kills")
@pytest.mark.timeout(300)
def test_accepted_messages_survive_kills_and_settled_ones_are_not_redelivered(tmp_path: Path) -> None:
    random_, promises = random.Random(os.getpid()), Promises()
    with nursery(tmp_path) as brokers:
        set_up(brokers, tmp_path)
        for round_ in range(KILLS):
            pid, port = brokers.start()
            promises.check(browse(tmp_path, port))
            least = len(promises.settled) + round_ % 4  # each fourth round is killed however far it is
            Traffic(
                promises,
                port,
                producers=3,
                consumers=2,
                after=random_.uniform(0, 0.4),
                begun=lambda least=least: len(promises.settled) >= least,  # type: ignore[misc]
                pid=pid,
            ).run()
        pid, port = brokers.start()
        promises.check(browse(tmp_path, port))
        os.kill(pid, signal.SIGKILL)
    assert not promises.rejected
    in_doubt = promises.sent - promises.accepted
    assert in_doubt, "some were on their way"
    log.info(
        f"{KILLS} kills: {len(promises.accepted)} accepted, {len(promises.settled)} settled, {len(in_doubt)} in doubt"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run([str(umount), "--lazy", str(folder)], check=True)


@pytest.mark.timeout(300)
def test_a_full_disk_costs_nothing_that_was_accepted_and_service_resumes_with_room(small_disk: Path) -> None:
    random_, promises, data = random.Random(os.getpid()), Promises(), small_disk / "data"
    filling = small_disk / "others"
    with nursery(data) as brokers:
        set_up(brokers, data)
        for round_ in range(12):
            pid, port = brokers.start()
            promises.check(browse(data, port))
            if round_ % 3 == 0:  # room
                filling.unlink(missing_ok=True)
                serve(promises, port)
            fill(filling)
            kill = pid if random_.random() < 0.7 else 0
            Traffic(promises, port, producers=3, consumers=1, after=0.5, pid=kill, size=20_000).run()
            if not kill:
                os.kill(pid, signal.SIGKILL)
        filling.unlink(missing_ok=True)
        pid, port = brokers.start()
        promises.check(browse(data, port))
        serve(promises, port, pid)
    assert promises.rejected, "the disk was full at times"
    log.info(f"{len(promises.accepted)} accepted, {len(promises.rejected)} rejected, {len(promises.settled)} settled")


def serve(promises: Promises, port: int, pid: int = 0) -> None:
    """Have messages accepted: with room there is service."""
    before = len(promises.accepted)

    def served() -> bool:
        return len(promises.accepted) > before

    Traffic(promises, port, producers=3, consumers=3, after=0.8, begun=served, pid=pid).run()


def fill(path: Path) -> None:
    """Fill the disk."""
    with path.open("ab", buffering=0) as file:
        for piece in (1 << 20, 4096):
            try:
                while file.write(bytes(piece)) == piece:
                    pass
            except OSError:
                pass
