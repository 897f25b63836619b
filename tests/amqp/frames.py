"""A peer that writes AMQP frames by hand, so that it can also send what no library would."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from dataclasses import dataclass
from typing import Any

from proton import Data, Described, Message, symbol, ubyte, uint, ulong

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET, COORDINATOR = 0x28, 0x29, 0x30
ACCEPTED = 0x24

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"

SENDER, RECEIVER = False, True


@dataclass(frozen=True)
class Frame:
    channel: int
    code: int
    fields: list[Any]
    payload: bytes
    data: Any = None  # what Proton's views of binaries in `fields` live in

    def field(self, index: int) -> Any:
        return self.fields[index] if index < len(self.fields) else None


def head(size: int, start: int, channel: int = 0, kind: int = 0) -> bytes:
    """Of a frame of `size` bytes, whose body is at `start` times four."""
    return struct.pack(">IBBH", size, start, kind, channel)


#: Heads that a broker that takes frames of 65,536 bytes ends the connection for, whatever follows.
ENDING_HEADS = {
    **{f"{size:,} bytes": head(size, 2) for size in (0, 1, 7, 65_537, 2**31, 2**32 - 1)},
    **{f"a body at {start} times four": head(24, start) for start in (0, 1, 7, 255)},
}


def described(code: int, *fields: Any) -> Described:
    return Described(ulong(code), list(fields))


def encode(value: Any) -> bytes:
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def frame(code: int, *fields: Any, channel: int = 0, payload: bytes = b"", kind: int = 0) -> bytes:
    body = encode(described(code, *fields)) + payload
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def anonymous_init() -> bytes:
    """Return all bytes of a sign-in without credentials."""
    return SASL_HEADER + frame(0x41, symbol("ANONYMOUS"), b"", kind=1)


class Peer:
    """A socket to the broker. `said` grows with every frame that was read."""

    def __init__(self, port: int, *, receive_buffer: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(5.0)
        self.socket.connect(("127.0.0.1", port))
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.buffer = b""
        self.said: list[Frame] = []
        self.sent = 0  # deliveries
        self.closed = False

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def vanish(self) -> None:
        """Close the socket with a reset, without a close."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # -- conversation -------------------------------------------------------------------------------------------

    def open(self, *, hostname: str | None = None, idle_timeout: int | None = None, begin: bool = True) -> Peer:
        """Sign in as anonymous, open, and begin a session."""
        self.write(anonymous_init() + AMQP_HEADER)
        timeout = None if idle_timeout is None else uint(idle_timeout)
        self.write(frame(OPEN, "by-hand", hostname, uint(65536), None, timeout))
        if begin:
            self.begin()
            self.expect(BEGIN)
        return self

    def begin(self, channel: int = 0) -> None:
        self.write(frame(BEGIN, None, uint(0), uint(2048), uint(2048), channel=channel))

    def attach(
        self,
        address: str | None,
        *,
        role: bool = SENDER,
        name: str = "link",
        handle: int = 0,
        channel: int = 0,
        source: Any = None,
        target: Any = None,
    ) -> None:
        other = described(SOURCE if role is SENDER else TARGET, None)
        ours = described(TARGET if role is SENDER else SOURCE, address)
        source = source or (other if role is SENDER else ours)
        target = target or (ours if role is SENDER else other)
        count = uint(0) if role is SENDER else None
        fields = (name, uint(handle), role, ubyte(2), ubyte(0), source, target, None, None, count)
        self.write(frame(ATTACH, *fields, channel=channel))

    def give_credit(self, credit: int, *, handle: int = 0, seen: int = 0, drain: bool = False) -> None:
        fields = (uint(0), uint(2048), uint(0), uint(2048), uint(handle), uint(seen), uint(credit), None, drain)
        self.write(frame(FLOW, *fields))

    def transfer(
        self,
        payload: bytes | None = None,
        *,
        handle: int = 0,
        settled: bool = False,
        more: bool = False,
        aborted: bool = False,
        number: int | None = None,
        channel: int = 0,
        state: Any = None,
        written: bool = True,
    ) -> bytes:
        """One transfer frame, written and returned. `number`: continue that delivery instead of a new one. `written`:
        else the caller writes it, with others."""
        if payload is None:
            payload = Message(body="by hand").encode()
        if number is None:
            number, self.sent = self.sent, self.sent + 1
        tag = number.to_bytes(4, "big")
        fields = (uint(handle), uint(number), tag, uint(0), settled, more, None, state, None, aborted)
        data = frame(TRANSFER, *fields, channel=channel, payload=payload)
        if written:
            self.write(data)
        return data

    def read(self, within: float = 5.0) -> Frame | None:
        """The next AMQP frame; None at the end of the stream. Headers, SASL and empty frames are passed over."""
        end = time.monotonic() + within
        while True:
            if self.buffer[:4] == b"AMQP" and len(self.buffer) >= 8:
                self.buffer = self.buffer[8:]
            elif len(self.buffer) >= 8 and len(self.buffer) >= (length := int.from_bytes(self.buffer[:4], "big")):
                whole, self.buffer = self.buffer[:length], self.buffer[length:]
                if length > 8 and whole[5] == 0:
                    return self._decoded(whole)
            elif not self._fill(end):
                return None

    def _fill(self, end: float) -> bool:
        waiting = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()
        assert waiting or select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0], (
            "the broker says nothing"
        )
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        self.closed = not data
        return bool(data)

    def _decoded(self, whole: bytes) -> Frame:
        data = Data()
        body = whole[whole[4] * 4 :]
        length = data.decode(body)
        data.rewind()
        data.next()
        value = data.get_object()
        read = Frame(int.from_bytes(whole[6:8], "big"), int(value.descriptor), list(value.value), body[length:], data)
        self.said.append(read)
        return read

    def expect(self, code: int, within: float = 5.0) -> Frame:
        """The next frame of that kind; what comes before it is in `said`."""
        end = time.monotonic() + within
        while (read := self.read(max(0.0, end - time.monotonic()))) is not None:
            if read.code == code:
                return read
        raise AssertionError(f"the broker closed the connection without a frame {code:#x}: {self.said}")

    def expect_end(self, within: float = 5.0) -> None:
        """Expect that the broker closes the socket, after any output."""
        end = time.monotonic() + within
        while self.read(max(0.0, end - time.monotonic())) is not None:
            pass

    def is_alive(self) -> None:
        """Check that the connection works: a new session is answered."""
        self.begin(channel=7)
        while self.expect(BEGIN).field(0) != 7:
            pass
        self.write(frame(END, channel=7))
        self.expect(END)

    def expect_error(self, code: int, index: int) -> tuple[str, str]:
        """(condition, description) of the error in field `index` of the next frame of that kind."""
        error = self.expect(code).field(index)
        assert error is not None, "it ended without an error"
        return str(error.value[0]), str(error.value[1])
