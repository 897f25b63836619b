"""The frames of AMQP 1.0's SASL layer (part 5.3), as bytes: a strict codec for the five of them and nothing else.

Pure. What is read comes from peers that are not known yet, so anything that is not exactly as the standard says is a
MalformedFrame, and no length is trusted before it has been compared with what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Maximum size of a SASL frame; a peer can rely on no more than 512.
MAX_FRAME = 4096

#: Outcome codes (part 5.3.3.6).
OK, AUTH, SYS_TEMP = 0, 1, 4

_MECHANISMS, _INIT, _CHALLENGE, _RESPONSE, _OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
_DESCRIPTORS = {b"amqp:sasl-init:list": _INIT, b"amqp:sasl-response:list": _RESPONSE}

_NULL, _SYMBOL, _BINARY, _STRING = 0x40, 0xA3, 0xA0, 0xA1  # the variable ones with a length of one byte; + 0x10: four


class MalformedFrame(Exception):
    """The peer sent an invalid SASL frame for a server. The message says why."""


@dataclass(frozen=True, slots=True)
class Init:
    mechanism: str
    initial_response: bytes | None
    hostname: str | None


@dataclass(frozen=True, slots=True)
class Response:
    response: bytes


def frame_length(head: bytes | bytearray) -> int:
    """Return the length in bytes, head included, of the frame that starts with these eight."""
    length = int.from_bytes(head[:4], "big")
    offset, kind = head[4] * 4, head[5]
    if kind != 1:
        raise MalformedFrame(f"frame of type {kind} where a SASL frame should be")
    if not 8 <= offset <= length <= MAX_FRAME:
        raise MalformedFrame(f"frame of {length} bytes whose body starts at {offset}; at most {MAX_FRAME} are taken")
    return length


def decode(frame: bytes) -> Init | Response:
    """Decode one complete frame of a client."""
    reader = _Reader(frame, frame[4] * 4)
    descriptor = reader.descriptor()
    fields = reader.list_of_fields()
    if descriptor == _INIT:
        mechanism, initial, hostname = _fields(fields, 3)
        if not isinstance(mechanism, _Symbol):
            raise MalformedFrame("sasl-init without a mechanism")
        if not (initial is None or type(initial) is bytes) or not (hostname is None or type(hostname) is str):
            raise MalformedFrame("sasl-init with a field of another type")
        return Init(str(mechanism), initial, hostname)
    if descriptor == _RESPONSE:
        (response,) = _fields(fields, 1)
        if type(response) is not bytes:
            raise MalformedFrame("sasl-response without a response")
        return Response(response)
    raise MalformedFrame(f"a client may not send a SASL frame {descriptor:#x}")


def encode_mechanisms(names: Sequence[str]) -> bytes:
    """Encode the server's mechanisms, the best first: an array of symbols."""
    elements = b"".join(bytes([len(name)]) + name.encode("ascii") for name in names)
    return _frame(_MECHANISMS, bytes([0xE0, len(elements) + 2, len(names), _SYMBOL]) + elements)


def encode_challenge(challenge: bytes) -> bytes:
    return _frame(_CHALLENGE, _binary(challenge))


def encode_outcome(code: int, additional_data: bytes | None = None) -> bytes:
    """Encode an outcome. `additional_data`: the mechanism's data for the client with its success (RFC 4422 section
    3.6)."""
    fields = [bytes([0x50, code])]
    if additional_data is not None:
        fields.append(_binary(additional_data))
    return _frame(_OUTCOME, *fields)


def _frame(descriptor: int, *fields: bytes) -> bytes:
    items = b"".join(fields)
    body = bytes([0x00, 0x53, descriptor, 0xD0]) + (len(items) + 4).to_bytes(4, "big")
    body += len(fields).to_bytes(4, "big") + items
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def _binary(data: bytes) -> bytes:
    if len(data) < 256:
        return bytes([_BINARY, len(data)]) + data
    return bytes([_BINARY + 0x10]) + len(data).to_bytes(4, "big") + data


class _Symbol(str):
    """Text of an AMQP symbol, not of a string."""


_Field = bytes | str | _Symbol | None


def _fields(given: list[_Field], count: int) -> list[_Field]:
    if len(given) > count:
        raise MalformedFrame(f"{len(given)} fields where there are {count}")
    return given + [None] * (count - len(given))


class _Reader:
    def __init__(self, frame: bytes, at: int) -> None:
        self._frame = frame
        self._at = at

    def _take(self, count: int) -> bytes:
        if count > len(self._frame) - self._at:
            raise MalformedFrame("a value goes on after the end of its frame")
        self._at += count
        return self._frame[self._at - count : self._at]

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    def descriptor(self) -> int:
        if self._number(1) != 0x00:
            raise MalformedFrame("a body that is not a described list")
        match self._number(1):
            case 0x53:
                return self._number(1)
            case 0x80:
                return self._number(8)
            case code if code in (_SYMBOL, _SYMBOL + 0x10):
                name = self._take(self._number(1 if code == _SYMBOL else 4))
                return _DESCRIPTORS.get(name, 0)
            case code:
                raise MalformedFrame(f"a descriptor of type {code:#x}")

    def list_of_fields(self) -> list[_Field]:
        """Read the list that must fill the rest of the frame exactly."""
        code = self._number(1)
        if code == 0x45:
            fields: list[_Field] = []
        elif code in (0xC0, 0xD0):
            width = 1 if code == 0xC0 else 4
            size = self._number(width)
            if size != len(self._frame) - self._at:
                raise MalformedFrame("a list whose size is not that of the frame's rest")
            count = self._number(width)
            if count > size:
                raise MalformedFrame("a list of more fields than bytes")
            fields = [self._field() for _ in range(count)]
        else:
            raise MalformedFrame(f"a body of type {code:#x} where a list should be")
        if self._at != len(self._frame):
            raise MalformedFrame("bytes after the end of the list")
        return fields

    def _field(self) -> _Field:
        code = self._number(1)
        if code == _NULL:
            return None
        kind, wide = code & ~0x10, bool(code & 0x10)
        if kind not in (_SYMBOL, _BINARY, _STRING):
            raise MalformedFrame(f"a field of type {code:#x}")
        data = self._take(self._number(4 if wide else 1))
        try:
            if kind == _SYMBOL:
                return _Symbol(data.decode("ascii"))
            return data if kind == _BINARY else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedFrame(f"a text that is not: {error}") from error
