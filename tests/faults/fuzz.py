"""Fuzzing: a broker process gets mutated recordings of real conversations; it survives, frees them, and serves others.

`uv run python -m tests.faults.fuzz --inputs 1000000 --seed 1`. Each connection plays a recorded conversation up to some
point and goes on with mutated frames, one or some at a time, of which each is an *input*. After each a session is
begun, and the broker's answer shows that the input did not end the connection. Inputs after the one that did are not
counted.

Every `CHAPTER` inputs, ten times in a run at least, their virtual host is deleted and the process looked at, which is
a *mark*. Checked at each, with the exit code as the result: the process lives, it has written no warning and no
traceback, a client in another virtual host that sends and receives durable messages all the while had no error, and
when what is deleted has been closed no connection, descriptor or thread is left beside those of the first mark, before
which all that the broker opens once and keeps has been used. At the end resident memory is where it was after a fifth
of the inputs (`GROWTH_BYTES`).

What connection number n sends follows from the seed alone: `--connection n` sends it to a fresh broker, one input
more each time, and says after which one the broker complains.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from proton import Message, uint
from proton.utils import BlockingConnection

from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.frames import ATTACH, BEGIN, CLOSE, frame
from tests.faults import recordings
from tests.faults.mutation import Mutator, code_of

ROOT = Path(__file__).resolve().parent.parent.parent

#: Inputs between two deletions of their virtual host, at most.
CHAPTER = 25_000
#: Resident memory at the last mark may be above that after a fifth of the inputs by this.
GROWTH_BYTES = 32 << 20
#: Connections at a time.
AT_ONCE = 12
#: An answer that is not there after these seconds will not come, on however slow a machine.
PATIENCE = 120.0
#: An input to which the broker says nothing for these seconds is followed by the next one.
QUIET = 2.0

CALM = "calm"

#: The first channel that marks an input; recorded conversations use low ones.
MARK = 20_000

_CONVERSATIONS = recordings.read_all()
_POOL = [each for frames in _CONVERSATIONS.values() for each in frames]


@dataclass(frozen=True)
class Plan:
    """The input of one connection. `together`: the number of inputs before it waits for the answer. `end`: how it ends,
    by closing one direction, by a reset, or with a proper close."""

    name: str
    prefix: list[bytes]
    inputs: list[bytes]
    piece: int  # bytes that are written at once; 0: all
    end: str
    together: int = 1

    def parts(self, upto: int | None = None) -> list[tuple[int, int, bytes]]:
        """What is sent, each part after this many answers with this code: a client may send nothing in a session that
        it knows no window of, and has no credit before its links are attached; and what Proton reads with a frame that
        ends the connection the broker does not see. `upto`: the number of inputs."""
        begun = _HEAD[self.name] + 2
        attached = [n for n, each in enumerate(self.prefix) if code_of(each) == ATTACH]
        cut = attached[-1] + 1 if attached else begun
        sessions = 1 if len(self.prefix) >= begun else 0
        parts = [
            (0, 0, b"".join(self.prefix[:begun])),
            (BEGIN, sessions, b"".join(self.prefix[begun:cut])),
            (ATTACH, len(attached), b"".join(self.prefix[cut:])),
        ]
        if not self.signed_in:
            return [*parts, *((0, 0, each) for each in self.inputs[:upto])]
        marked = [data + _MARKS[n] for n, data in enumerate(self.inputs[:upto])]
        for n in range(0, len(marked), self.together):
            parts.append((BEGIN, sessions + n, b"".join(marked[n : n + self.together])))
        return [*parts, (BEGIN, sessions + len(self.inputs[:upto]), frame(CLOSE) if self.end == "close" else b"")]

    @property
    def signed_in(self) -> bool:
        """Whether there can be sessions at the time of the inputs."""
        return len(self.prefix) > _HEAD[self.name]


_MARKS = [frame(BEGIN, None, uint(1), uint(1), uint(1), channel=MARK + n) for n in range(64)]


def _head(frames: list[bytes]) -> int:
    """Index of the frame that opens the connection."""
    return next(n for n, each in enumerate(frames) if each[8:11] == b"\x00\x53\x10")


_HEAD = {name: _head(frames) for name, frames in _CONVERSATIONS.items()}


def plan(seed: str, number: int) -> Plan:
    chance = random.Random(f"{seed}:{number}")
    name = chance.choice(list(_CONVERSATIONS))
    frames = _CONVERSATIONS[name]
    head = _HEAD[name]
    before_open = name == "sasl_scram" or chance.random() < 0.08
    least = head + (1 if chance.random() < 0.05 else 2)  # as a rule there is a session
    length = chance.randrange(head + 1) if before_open else chance.randrange(least, len(frames))
    mutator = Mutator(chance, _POOL)
    inputs = mutator.inputs(frames[:length], frames[length:], 1 if before_open else chance.choice((3, 8, 20, 60)))
    prefix = frames[:length]
    # After what is no whole frame, or asks for the end, the broker rightly says nothing more.
    last = next((n for n, each in enumerate(inputs) if not _goes_on(each)), len(inputs))
    inputs = inputs[: last + 1]
    if before_open:  # or the user of the other recordings would have to wait for its failures
        prefix, inputs = ([_other_user(each) for each in some] for some in (prefix, inputs))
    piece = chance.choice((0, 0, 0, 0, 1, 7, 100, 3000))
    # Byte by byte takes a write each, which is most of the time of a run where a conversation is long.
    while piece and sum(map(len, (*prefix, *inputs))) > 1000 * piece:
        piece *= 10
    end = chance.choice(("half",) * 14 + ("close",) * 5 + ("reset",))
    return Plan(name, prefix, inputs, piece, end, chance.choice((1, 1, 3, 8)))


def _goes_on(data: bytes) -> bool:
    """Whether what follows it begins a frame of its own, on a connection that is not closed."""
    cut = recordings.frames(data)
    return b"".join(cut) == data and all(
        len(each) >= 8
        and each[:4] != b"AMQP"
        and int.from_bytes(each[:4], "big") == len(each)
        and each[8:11] != b"\x00\x53\x18"
        for each in cut
    )


def _other_user(data: bytes) -> bytes:
    return data.replace(recordings.NAME.encode(), b"fuzy")


# -- the broker -------------------------------------------------------------------------------------------------------


class Broker:
    """`manage.py broker` on an ephemeral port. `with` ends it; `complaints` is its output to stderr."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._errors = folder / "stderr"
        command = [sys.executable, "manage.py", "broker", "--port", "0", "--data", str(self.data)]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(":")[2])
        self.seen = psutil.Process(self.process.pid)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def complaints(self) -> str:
        return self._errors.read_text(errors="replace")

    @property
    def resident(self) -> int:
        return int(self.seen.memory_info().rss)

    @property
    def resources(self) -> Resources:
        return Resources(self.seen.num_fds(), self.seen.num_threads())

    @property
    def open(self) -> list[str]:
        """What its descriptors stand for, sorted. A file that was deleted says so."""
        found = list[str]()
        for each in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.append(str(each.readlink()))
        return sorted(found)

    @property
    def still(self) -> bool:
        """Whether it has one client, the calm one, and closed all that was deleted; a store's thread ends before its
        files are closed."""
        clients = sum(each.status != psutil.CONN_LISTEN for each in self.seen.net_connections("tcp"))
        return clients <= 1 and not any(each.endswith("(deleted)") for each in self.open)

    async def manager(self) -> BundledBroker:
        secret = (self.data / "console.secret").read_text().strip()
        return await BundledBroker.connect("127.0.0.1", self.port, "console", secret, timeout=PATIENCE)

    async def prepare(self) -> None:
        """The virtual hosts and users of the recordings and of the calm client."""
        manager = await self.manager()
        for name in (recordings.NAME, CALM):
            grants = [f"{name}:publish,consume,manage"]
            await manager.create(object_name("VirtualHost", name=name), _HOST | {"anonymous": name != CALM})
            await manager.create(object_name("User", name=name), {"password": recordings.PASSWORD, "grants": grants})
        spooled = object_name("Queue", virtualhost=CALM, name="spooled")
        await manager.create(spooled, {"capacity_messages": 1, "spool": "disk"})
        await manager.close()

    async def clear(self) -> None:
        """Delete the virtual host of the inputs with its content, and create it again."""
        manager = await self.manager()
        name = object_name("VirtualHost", name=recordings.NAME)
        await manager.delete(name)
        await manager.create(name, _HOST | {"anonymous": True})
        user = object_name("User", name=recordings.NAME)
        grants = [f"{recordings.NAME}:publish,consume,manage"]
        await manager.update(
            user, {"grants": grants}, (await manager.read(user)).version
        )  # which went with the virtual host
        await manager.close()

    async def quiet(self) -> None:
        """Wait until only the calm client and the console's connections are left. Raises Failed."""
        manager = await self.manager()
        end = time.monotonic() + PATIENCE
        while left := [
            each.attributes
            for each in (await manager.query("Connection")).items
            if each.attributes["user"] not in (CALM, "console")
        ]:
            if time.monotonic() > end:
                raise Failed(f"connections are left: {left}")
            await asyncio.sleep(0.05)
        await manager.close()

    async def come_to_rest(self) -> None:
        """Wait until the broker is idle. Raises Failed."""
        end = time.monotonic() + PATIENCE
        while not self.still:
            if time.monotonic() > end:
                raise Failed(f"clients or deleted files are left: {self.open}")
            await asyncio.sleep(0.05)


_HOST = {"create_on_attach": True, "durable_queues": True}


class Failed(Exception):
    """A check failed."""


class Resources(NamedTuple):
    descriptors: int
    threads: int


class Mark(NamedTuple):
    """The broker after a number of inputs, without any of their connections. `resident`: bytes."""

    inputs: int
    resident: int
    resources: Resources


class Calm(threading.Thread):
    """A well-behaved client: it sends a durable message and consumes it, repeatedly, until `end`. Before that it
    sends some to a queue that spools, so that the broker has its temp store open from then on. `waits`: of each message
    from its sending to its acceptance by both, s."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.waits = list[float]()
        self.error = ""
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            connection = BlockingConnection(
                f"127.0.0.1:{self.port}",
                timeout=PATIENCE,
                virtual_host=CALM,
                allowed_mechs="PLAIN",
                user=CALM,
                password=recordings.PASSWORD,
            )
            spooled = connection.create_sender("spooled")
            for number in range(4):
                spooled.send(Message(body=number))
            sender, receiver = connection.create_sender("calm"), connection.create_receiver("calm", credit=10)
            while not self._ended.is_set():
                began = time.monotonic()
                sender.send(Message(body=self.count, durable=True))
                body = receiver.receive().body
                receiver.accept()
                if body != self.count:
                    raise Failed(f"sent {self.count}, received {body}")
                self.waits.append(time.monotonic() - began)
                self._ended.wait(0.02)
            connection.close()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    @property
    def count(self) -> int:
        return len(self.waits)

    def shown(self, since: int = 0) -> str:
        """The waiting times of its messages from that one on."""
        waits = sorted(self.waits[since:])
        if not waits:
            return "the calm client has sent nothing"
        half, most = (waits[int(len(waits) * part)] * 1000 for part in (0.5, 0.99))
        return f"the calm client waited {half:.0f} ms (99 %: {most:.0f}, longest {waits[-1] * 1000:.0f})"

    async def begun(self) -> None:
        """Wait until it has sent its first message. Raises Failed."""
        end = time.monotonic() + PATIENCE
        while not self.count:
            if self.error or time.monotonic() > end:
                raise Failed(f"the calm client has not begun: {self.error}")
            await asyncio.sleep(0.05)

    def end(self) -> None:
        self._ended.set()
        self.join(2 * PATIENCE)


# -- one connection ---------------------------------------------------------------------------------------------------


@dataclass
class Played:
    """The end of a connection. `port`: the client's, as in the broker's log."""

    port: int = 0
    inputs: int = 0
    sent: int = 0


async def play(port: int, planned: Plan, upto: int | None = None) -> Played:
    """Send the inputs. Raises Failed if the broker neither answers nor closes."""
    played, hearing = Played(), Hearing()
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(client, ("127.0.0.1", port))
        played.port = client.getsockname()[1]
        listening = asyncio.create_task(hearing.listen(client))
        try:
            async with asyncio.timeout(PATIENCE):
                with contextlib.suppress(OSError):  # the broker has closed already
                    for code, count, data in planned.parts(upto):
                        with contextlib.suppress(TimeoutError):  # it may have said all on this that it will
                            async with asyncio.timeout(QUIET):
                                await hearing.heard(code, count)
                        await _write(client, data, planned.piece)
                        played.sent += len(data)
                    if planned.end != "reset":
                        client.shutdown(socket.SHUT_WR)
                if planned.end != "reset":
                    await listening
        except TimeoutError:
            raise Failed(f"no answer and no close within {PATIENCE:g} s") from None
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
        if planned.end == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    marks = _marks(bytes(hearing.said))
    played.inputs = marks if planned.end == "reset" else min(len(planned.inputs[:upto]), marks + 1)
    return played


async def _write(client: socket.socket, data: bytes, piece: int) -> None:
    loop = asyncio.get_running_loop()
    for at in range(0, len(data), piece or len(data) or 1):
        await loop.sock_sendall(client, data[at : at + piece] if piece else data)


class Hearing:
    """The broker's output on the connection."""

    def __init__(self) -> None:
        self.said = bytearray()
        self._more = asyncio.Event()
        self._ended = False

    async def listen(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := await asyncio.get_running_loop().sock_recv(client, 1 << 18):
                self.said += data
                self._more.set()
        self._ended = True
        self._more.set()

    async def heard(self, code: int, count: int) -> None:
        """Return when it has sent `count` performatives with this code, or sends no more."""
        while not self._ended and self.said.count(bytes((0, 0x53, code))) < count:
            self._more.clear()
            await self._more.wait()


_BEGUN = re.compile(rb"\x00\x53\x11(?:\xc0..|\xd0.{8})\x60(..)", re.DOTALL)


def _marks(said: bytes) -> int:
    """Answers to marks: the sessions that were begun on their channels."""
    return sum(1 for remote in _BEGUN.findall(said) if MARK <= int.from_bytes(remote, "big") < MARK + len(_MARKS))


# -- a run ------------------------------------------------------------------------------------------------------------


@dataclass
class Run:
    seed: str
    inputs: int
    count: Counter[str] = field(default_factory=Counter)
    marks: list[Mark] = field(default_factory=list)
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=500))  # (connection, its port)

    async def go(self, folder: Path, chapter: int = CHAPTER) -> None:
        """Raises Failed."""
        with Broker(folder) as broker:
            await broker.prepare()
            calm = Calm(broker.port)
            await calm.begun()
            await self._chapter(broker, min(chapter, 1000))  # what is made once has been made by then
            first = await self._mark(broker)
            self.marks.append(first)
            began = time.monotonic()
            while self.count["inputs"] < self.inputs:
                messages = calm.count
                await self._chapter(broker, min(self.inputs, self.count["inputs"] + chapter))
                self._look(broker, calm)
                self.marks.append(mark := await self._mark(broker))
                print(
                    f"{time.monotonic() - began:6.0f} s: {mark.inputs:,} inputs in {self.count['connections']:,}"
                    f" connections, {self.count['bytes']:,} bytes; {mark.resident >> 20} MiB,"
                    f" {mark.resources.descriptors} descriptors, {mark.resources.threads} threads;"
                    f" {calm.shown(messages)}",
                    flush=True,
                )
                if (
                    mark.resources.descriptors > first.resources.descriptors
                    or mark.resources.threads > first.resources.threads
                ):
                    raise Failed(f"at first there were {first.resources}, and now {mark.resources}: {broker.open}")
            calm.end()
            self._look(broker, calm)
            self.count["messages of the calm client"] = calm.count
            print(f"in all, {calm.shown()}")
            if (grown := self.growth) > GROWTH_BYTES:
                raise Failed(f"memory has grown by {grown:,} bytes")
        if broker.process.returncode != 0:
            raise Failed(f"the broker ended with the exit code {broker.process.returncode}")
        if broker.complaints:
            raise Failed(f"the broker complained:\n{broker.complaints}")

    @property
    def growth(self) -> int:
        """Of resident memory since a fifth of the inputs, bytes."""
        early = next(each for each in self.marks[1:] if each.inputs * 5 >= self.inputs)
        return self.marks[-1].resident - early.resident

    async def _mark(self, broker: Broker) -> Mark:
        """With the virtual host of the inputs deleted and all that was in it closed. Raises Failed."""
        await broker.quiet()
        await broker.clear()
        await broker.come_to_rest()
        return Mark(self.count["inputs"], broker.resident, broker.resources)

    async def _chapter(self, broker: Broker, upto: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_ONCE):
                tasks.create_task(self._worker(broker, upto))

    async def _worker(self, broker: Broker, upto: int) -> None:
        while self.count["inputs"] < upto:
            number = self.count["connections"]
            self.count["connections"] += 1
            planned = plan(self.seed, number)
            try:
                played = await play(broker.port, planned)
            except Failed as failed:
                raise Failed(f"connection {number}: {failed}") from None
            except OSError as error:
                raise Failed(f"connection {number}: {error}; {self._who(broker)}") from None
            self.recent.append((number, played.port))
            self.count["inputs"] += played.inputs
            self.count["bytes"] += played.sent
            self.count[f"inputs from {planned.name}"] += played.inputs
            if number % 50 == 0 and broker.complaints:
                raise Failed(self._who(broker))

    def _look(self, broker: Broker, calm: Calm) -> None:
        if not broker.alive or broker.complaints:
            raise Failed(self._who(broker))
        if calm.error:
            raise Failed(f"the calm client: {calm.error}")

    def _who(self, broker: Broker) -> str:
        """What the broker says, and which connections it says it of."""
        said = broker.complaints
        named = [number for number, port in self.recent if f":{port} " in said]
        state = "lives" if broker.alive else f"ended with {broker.process.returncode}"
        last = [number for number, _ in list(self.recent)[-AT_ONCE:]]
        return f"the broker {state}; connections it names: {named}, last ones: {last}; it says:\n{said[:5000]}"

    def show(self) -> None:
        for name, count in sorted(self.count.items()):
            print(f"{name:40} {count:14,}")
        print("resident at each mark, MiB:", *(each.resident >> 20 for each in self.marks))


async def replay(seed: str, number: int) -> int:
    """Return the exit code: 1 if the broker logs an error or ends."""
    planned = plan(seed, number)
    print(
        f"connection {number} of seed {seed}: {planned.name}, {len(planned.prefix)} frames as recorded, {planned.end}"
    )
    for upto in range(1, len(planned.inputs) + 1):
        with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
            await broker.prepare()
            played = await play(broker.port, planned, upto)
            if broker.alive:
                await broker.clear()
            print(f"{upto} inputs: {played.inputs} of them taken; the last: {planned.inputs[upto - 1][:200].hex()}")
            if broker.complaints or not broker.alive:
                print(broker.complaints)
                return 1
        if upto > played.inputs:
            break  # it has ended the connection
    return 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz", description=str(__doc__).splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="default: a random one")
    parser.add_argument("--connection", type=int, help="play this one alone, one input more each time")
    options = parser.parse_args(argv)
    print(f"seed {options.seed}")
    if options.connection is not None:
        return asyncio.run(replay(options.seed, options.connection))
    run = Run(options.seed, options.inputs)
    folder = Path(tempfile.mkdtemp(prefix="headgate-fuzz-"))
    failed: list[BaseException] = []
    try:
        asyncio.run(run.go(folder, min(CHAPTER, max(1, options.inputs // 10))))
    except* Failed as group:
        failed = list(_leaves(group))
    run.show()
    for each in failed:
        print(f"FAILED (seed {options.seed}; files in {folder}): {each}")
    if not failed:
        print(
            "The broker lives, complained of nothing, has given all back, and served the calm client without an error."
        )
    return bool(failed)


def _leaves(group: Any) -> Any:
    for each in group.exceptions:
        yield from _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
