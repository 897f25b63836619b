"""Mutation of frames: of their values (wrong fields, types, lengths, states) and of their bytes.

Pure: what comes out follows from the random source. `Mutator.inputs` gives frames, most of them well-formed AMQP 1.0
with content that no client would send, and the rest not even that.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from functools import lru_cache

#: One value as bytes, or a compound of values.
Value = bytes | tuple["Value", ...]

_DESCRIBED, _LIST, _MAP = b"\x00", b"\xd0", b"\xd1"

#: Widths of values of fixed size by the upper half of the constructor, and of length fields.
_FIXED = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_PREFIXED = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


class NoValue(Exception):
    """The bytes are not an AMQP value."""


def parse(data: bytes, at: int = 0) -> tuple[Value, int]:
    """The value that begins there, and where it ends. Raises NoValue."""
    if at >= len(data):
        raise NoValue
    code = data[at]
    if code == 0:
        descriptor, at = parse(data, at + 1)
        value, at = parse(data, at)
        return (_DESCRIBED, descriptor, value), at
    kind = code >> 4
    if kind in _FIXED:
        end = at + 1 + _FIXED[kind]
        return _cut(data, at, end), end
    if kind not in _PREFIXED:
        raise NoValue
    width = _PREFIXED[kind]
    start = at + 1 + width
    end = start + int.from_bytes(_cut(data, at + 1, start), "big")
    if kind not in (0xC, 0xD):
        return _cut(data, at, end), end
    _cut(data, at, end)
    count, items, at = int.from_bytes(data[start : start + width], "big"), list[Value](), start + width
    for _ in range(count):
        item, at = parse(data, at)
        items.append(item)
    return (_LIST if code & 1 == 0 else _MAP, *items), end


def _cut(data: bytes, at: int, end: int) -> bytes:
    if end > len(data):
        raise NoValue
    return data[at:end]


def encode(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    head, *items = value
    if head == _DESCRIBED:
        return b"\x00" + b"".join(map(encode, items))
    body = b"".join(map(encode, items))
    if len(body) < 254 and len(items) < 256:
        return bytes((0xC0 if head == _LIST else 0xC1, len(body) + 1, len(items))) + body
    return (head if isinstance(head, bytes) else _LIST) + struct.pack(">II", len(body) + 4, len(items)) + body


def _nested(depth: int, shell: bytes = b"") -> bytes:
    """A list in a list, and so on; or a value with `depth` descriptors."""
    value = b"\x45"
    for _ in range(depth):
        value = shell + value if shell else b"\xd0" + struct.pack(">II", len(value) + 4, 1) + value
    return value


#: Values that are at an edge of their type, or beyond it.
EDGES: tuple[bytes, ...] = (
    *(bytes.fromhex(text) for text in ("40", "41", "42", "43", "44", "45", "5600", "5601", "5602", "56ff")),
    *(bytes.fromhex(text) for text in ("5000", "50ff", "5100", "5180", "52ff", "53ff", "54ff", "5580")),
    *(bytes((0x60, *struct.pack(">H", n))) for n in (0, 1, 255, 0x7FFF, 0x8000, 0xFFFF)),
    *(bytes((0x70, *struct.pack(">I", n))) for n in (0, 1, 2, 100, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)),
    *(bytes((0x71, *struct.pack(">i", n))) for n in (-1, -(2**31), 2**31 - 1)),
    *(bytes((0x80, *struct.pack(">Q", n))) for n in (0, 0x10, 2**31, 2**53 + 1, 2**63, 2**64 - 1)),
    *(bytes((0x81, *struct.pack(">q", n))) for n in (-1, -(2**63), 2**63 - 1)),
    *(bytes((0x83, *struct.pack(">q", n))) for n in (0, -1, -(2**63), 2**63 - 1, 253402300800000)),
    *(bytes((0x72, *struct.pack(">f", n))) for n in (float("nan"), float("inf"), -0.0)),
    *(bytes((0x82, *struct.pack(">d", n))) for n in (float("nan"), float("-inf"), 1e308)),
    *(bytes((0x73, *struct.pack(">I", n))) for n in (0, 0xD800, 0x110000, 0xFFFFFFFF)),
    b"\x74" + bytes(4), b"\x84" + b"\xff" * 8, b"\x94" + b"\x7f" * 16, b"\x98" + bytes(16),
    b"\xa0\x00", b"\xa0\x01\x00", b"\xb0" + struct.pack(">I", 5000) + bytes(5000), b"\xa0\xff" + b"\xff" * 255,
    b"\xa1\x00", b"\xa1\x01\x00", b"\xa1\x02\xff\xfe", b"\xa1\x03\xed\xa0\x80", b"\xa1\x04$man", b"\xa1\x02..",
    b"\xa1\x0b$management", b"\xa1\x07$events", b"\xa1\x08$samples", b"\xa1\x01#", b"\xa1\x01*", b"\xa1\x06a.#.*\n",
    b"\xb1" + struct.pack(">I", 70_000) + b"n" * 70_000, b"\xa1\xc8" + b"\xc3\xa9" * 100,
    b"\xa3\x00", b"\xa3\x01\x80", b"\xa3\x09ANONYMOUS", b"\xb3" + struct.pack(">I", 3000) + b"s" * 3000,
)  # fmt: skip

#: Lengths and counts that promise more than there is, or than memory could hold; deep nesting; types that are none.
UNSOUND: tuple[bytes, ...] = (
    b"\xb0\xff\xff\xff\xff", b"\xb1\x7f\xff\xff\xffx", b"\xa3\xffx", b"\xc0\x02\xff\x40", b"\xc0\x00\x00",
    b"\xc1\x02\x01\x40", b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff", b"\xd1\xff\xff\xff\xff\x00\x00\x00\x01",
    b"\xd0" + bytes(8), b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x40", b"\xf0\x00\x00\x00\x05\x00\x0f\x42\x40\x45",
    b"\xe0\x02\x00\x40", b"\xe0\x03\x01\xe0\x00", _nested(500), _nested(300, b"\x00"), b"\x00\x40\x40",
    *(bytes.fromhex(code) for code in ("01", "0f", "30", "4f", "5f", "8f", "9f", "af", "cf", "ef", "ff")),
)  # fmt: skip

#: States, terminuses and arrays in places where they may not be expected.
COMPOUND: tuple[bytes, ...] = (
    b"\xe0\x04\x02\xa3\x01a", b"\xf0\x00\x00\x00\x0b\x00\x00\x00\x02\x00\x53\x24\xc0\x01\x00",
    _nested(3), _nested(40), _nested(40, b"\x00\x53\x24"), b"\xc1\x05\x02\xa3\x01a\x40", b"\xc1\x01\x00",
    b"\x00\x53\x24\x45", b"\x00\x53\x25\x45", b"\x00\x53\x26\x45", b"\x00\x53\x27\xc0\x03\x02\x41\x41",
    b"\x00\x53\x34\xc0\x04\x01\xa0\x01t", b"\x00\x53\x30\x45", b"\x00\x53\x28\x45", b"\x00\x53\x35\x45",
    b"\x00\x53\x28\xc0\x04\x01\xa1\x01q", b"\x00\xa3\x12amqp:accepted:list\x45", b"\x00\xa1\x01x\x45",
    b"\x00\x53\x29\xc0\x04\x01\xa1\x01q",
)  # fmt: skip


#: Constructor -> one of the constructors of the same type.
_FAMILY = {
    **dict.fromkeys((0x41, 0x42, 0x56), 0x56),
    **dict.fromkeys((0x43, 0x52, 0x70), 0x70),
    **dict.fromkeys((0x44, 0x53, 0x80), 0x80),
    **dict.fromkeys((0xA0, 0xB0), 0xA0),
    **dict.fromkeys((0xA1, 0xB1), 0xA1),
    **dict.fromkeys((0xA3, 0xB3), 0xA3),
    0x50: 0x50,
    0x60: 0x60,
    0x83: 0x83,
}
ALIKE = {family: tuple(e for e in EDGES if _FAMILY.get(e[0]) == family) for family in _FAMILY.values()}


@dataclass(frozen=True)
class Parsed:
    """A frame in its parts; `payload` is what follows the performative."""

    head: bytes
    body: Value
    payload: bytes


@lru_cache(4096)
def parsed(frame: bytes) -> Parsed | None:
    """None: a protocol header, an empty frame, or no frame at all."""
    if frame[:4] == b"AMQP" or len(frame) <= 8:
        return None
    try:
        body, end = parse(frame, 8)
    except (NoValue, RecursionError):
        return None
    return Parsed(frame[:8], body, frame[end:])


def framed(head: bytes, rest: bytes) -> bytes:
    """With the right length."""
    return struct.pack(">I", len(rest) + 8) + head[4:] + rest


_BEGIN, _ATTACH, _FLOW, _TRANSFER, _DETACH = 0x11, 0x12, 0x13, 0x14, 0x16


@lru_cache(4096)
def code_of(frame: bytes) -> int:
    """Of its performative; 0 if it has none of AMQP's or of SASL's."""
    parts = parsed(frame)
    if parts is None or isinstance(parts.body, bytes) or not isinstance(parts.body[1], bytes):
        return 0
    descriptor = parts.body[1]
    return descriptor[1] if len(descriptor) == 2 and descriptor[0] == 0x53 else 0


def fields_of(frame: bytes) -> list[Value]:
    """Of its performative."""
    parts = parsed(frame)
    if parts is None or isinstance(parts.body, bytes) or isinstance(parts.body[2], bytes):
        return []
    return list(parts.body[2][1:])


def _number(value: Value) -> int:
    return int.from_bytes(value[1:], "big") if isinstance(value, bytes) else 0


def _uint(number: int) -> bytes:
    return b"\x70" + struct.pack(">I", number)


class Session:
    """What the first session of a conversation has come to: without handles and delivery numbers that fit, Proton ends
    a connection before the broker has seen anything of it."""

    def __init__(self, frames: list[bytes]) -> None:
        self.senders, self.links = list[int](), list[int]()
        self.deliveries = self.fresh = 0
        for frame in frames:
            self._follow(frame)
        self.fresh = 1 + max(self.links, default=0)

    def _follow(self, frame: bytes) -> None:
        code, fields = code_of(frame), fields_of(frame)
        if code == _ATTACH:
            handle = _number(fields[1])
            self.links.append(handle)
            if fields[2] == b"\x42":
                self.senders.append(handle)
        elif code == _DETACH:
            self._detached(_number(fields[0]))
        elif code == _TRANSFER and len(fields) > 1 and fields[1] != b"\x40":
            self.deliveries = _number(fields[1]) + 1

    def _detached(self, handle: int) -> None:
        self.links = [each for each in self.links if each != handle]
        self.senders = [each for each in self.senders if each != handle]

    def fitted(self, frame: bytes, chance: random.Random) -> bytes:
        """With handles and numbers of this session, where it has any."""
        parts, code, fields = parsed(frame), code_of(frame), fields_of(frame)
        if parts is None or isinstance(parts.body, bytes):
            return frame
        head = parts.head[:6] + b"\x00\x00"
        if code == _TRANSFER and self.senders:
            fields += [b"\x40"] * (6 - len(fields))
            tag = fields[2] if fields[2] != b"\x40" else b"\xa0\x04" + struct.pack(">I", self.deliveries)
            more = fields[5] if chance.random() < 0.03 else b"\x42"
            fields[:6] = [_uint(chance.choice(self.senders)), _uint(self.deliveries), tag, *fields[3:5], more]
            self.deliveries += 1
        elif code == _FLOW and len(fields) > 4 and self.links:
            fields[4] = _uint(chance.choice(self.links)) if fields[4] != b"\x40" else fields[4]
        elif code == _ATTACH:
            name = b"\xa1\x06" + b"%06d" % self.fresh
            fields[:2] = [name if chance.random() < 0.95 else fields[0], _uint(self.fresh)]
            self.fresh += 1  # what becomes of it is not known: later frames are for links of before
        elif code == _DETACH and self.links:
            handle = chance.choice(self.links)
            fields[0] = _uint(handle)
            self._detached(handle)
        elif code == _BEGIN:
            self.fresh += 1
            head = parts.head[:6] + struct.pack(">H", 100 + self.fresh)
        return framed(head, encode((_DESCRIBED, parts.body[1], (_LIST, *fields))) + parts.payload)


#: Fields that say where a frame belongs, by the code of its performative.
_WHERE = {_ATTACH: (1,), _FLOW: (4,), _TRANSFER: (0, 1, 2, 5), _DETACH: (0,)}

#: What ends a connection as it is: headers, open, end, close and SASL's frames.
_LAST = {0, 0x10, 0x17, 0x18, *range(0x40, 0x45)}


class Mutator:
    """`pool`: all the frames there are, to mix in."""

    def __init__(self, source: random.Random, pool: list[bytes]) -> None:
        self.random = source
        self.pool = pool
        self.attaching = [frame for frame in pool if code_of(frame) == _ATTACH]

    def inputs(self, before: list[bytes], rest: list[bytes], count: int) -> list[bytes]:
        """What is sent after `before` instead of the rest of a conversation."""
        chance, found, at = self.random, list[bytes](), 0
        session = Session(before)
        while len(found) < count:
            kind = chance.random()
            if kind < 0.3 or not rest:
                frame = chance.choice(self.pool)  # of another conversation
            elif kind < 0.5:
                frame = chance.choice(rest)  # out of order
            else:
                frame, at = rest[at % len(rest)], at + 1
            code = code_of(frame)
            if chance.random() < {**dict.fromkeys(_LAST, 0.98), _DETACH: 0.7}.get(code, 0):
                continue
            if not {_TRANSFER: session.senders, _DETACH: session.links, _FLOW: session.links}.get(code, True):
                frame, code = chance.choice(self.attaching), _ATTACH
            if chance.random() < 0.99:
                frame = session.fitted(frame, chance)
            found.append(self.mutated(frame))
        return found

    def mutated(self, frame: bytes) -> bytes:
        """Another frame, or several; rarely the same."""
        parts, kind = parsed(frame), self.random.random()
        if kind < 0.04:
            return frame
        if kind < 0.06 and code_of(frame) != _TRANSFER:
            return frame * self.random.choice((2, 2, 3, 10))
        if parts is None or kind < 0.08:
            return self._bytes(frame)
        if parts.payload and kind < 0.6:
            return framed(parts.head, encode(parts.body) + self._payload(parts.payload))
        head = parts.head
        if kind > 0.99:
            head = head[:6] + struct.pack(">H", self.random.choice((0, 1, 2, 255, 256, 32767, 65535)))
        body = parts.body
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            body = self._value(body, top=True)
        body = self._where(parts.body, body, code_of(frame))
        return framed(head, encode(body) + parts.payload)

    def _where(self, was: Value, value: Value, code: int) -> Value:
        """As a rule it still belongs where it did."""
        if isinstance(was, bytes) or isinstance(value, bytes) or self.random.random() < 0.02:
            return value
        before, after = was[2], value[2]
        if isinstance(before, bytes) or isinstance(after, bytes):
            return value
        fields = list(after)
        for index in _WHERE.get(code, ()):
            if len(before) > index + 1:
                fields += [b"\x40"] * (index + 2 - len(fields))
                fields[index + 1] = before[index + 1]
        return (value[0], value[1], tuple(fields))

    # -- values -------------------------------------------------------------------------------------------------

    def _value(self, value: Value, *, top: bool = False) -> Value:
        """One place in it is another value. `top`: as a rule what describes the whole stays."""
        chance = self.random
        if isinstance(value, bytes) or (not top and chance.random() < 0.2):
            return self._other(value)
        head, *items = value
        if head == _DESCRIBED:
            if chance.random() < 0.04:
                return (head, self._descriptor(), items[1])
            return (head, items[0], self._value(items[1], top=top))
        if not items:
            return (head, self._edge())
        at, kind = chance.randrange(len(items)), chance.random()
        if kind < 0.08:
            del items[at:]
        elif kind < 0.14:
            items.extend(self._edge() for _ in range(chance.choice((1, 1, 5, 300))))
        elif kind < 0.2:
            other = chance.randrange(len(items))
            items[at], items[other] = items[other], items[at]
        elif kind < 0.24:
            items.insert(at, items[at])
        else:
            items[at] = self._value(items[at])
        return (head, *items)

    def _edge(self) -> bytes:
        kind = self.random.random()
        return self.random.choice(UNSOUND if kind < 0.03 else COMPOUND if kind < 0.25 else EDGES)

    def _descriptor(self) -> bytes:
        if self.random.random() < 0.7:
            return bytes((0x53, self.random.choice((*range(0x10, 0x19), *range(0x23, 0x36), *range(0x40, 0x45), 0x70))))
        return self._edge()

    def _other(self, value: Value) -> Value:
        """As a rule of the same type, since Proton refuses a frame whose fields are not of theirs, or null."""
        chance, kind = self.random, self.random.random()
        if kind < 0.08 or not isinstance(value, bytes):
            return self._edge()
        alike = ALIKE.get(_FAMILY.get(value[0], -1), ())
        if kind < 0.55 and alike:
            return chance.choice(alike)
        if kind < 0.65:
            return b"\x40"
        if len(value) > 1:
            changed = bytearray(value)
            at = chance.randrange(1, len(value)) if len(value) < 9 or value[0] & 0x20 == 0 else -1
            changed[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            return bytes(changed)
        return chance.choice(alike) if alike else self._edge()

    # -- bytes --------------------------------------------------------------------------------------------------

    def _payload(self, payload: bytes) -> bytes:
        """A message whose sections have changed; of a long one the first bytes."""
        kind = self.random.random()
        if kind < 0.6 and len(payload) < 5000:
            sections, at = list[Value](), 0
            try:
                while at < len(payload):
                    section, at = parse(payload, at)
                    sections.append(section)
            except NoValue:
                return self._flipped(payload)
            which = self.random.randrange(len(sections))
            sections[which] = self._value(sections[which], top=True)
            if self.random.random() < 0.2:
                self.random.shuffle(sections)
            return b"".join(map(encode, sections))
        if kind < 0.8:
            return self._flipped(payload)
        return payload[: self.random.randrange(len(payload))]

    def _flipped(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 5, 20)) if data else 0):
            at = self.random.randrange(min(len(changed), 4000))
            changed[at] = self.random.choice((changed[at] ^ 1 << self.random.randrange(8), self.random.randrange(256)))
        return bytes(changed)

    def _bytes(self, frame: bytes) -> bytes:
        """As a rule the length still fits, so that there is a next frame."""
        chance, kind = self.random, self.random.random()
        rest = frame[8:]
        if kind < 0.55 and rest:
            return framed(frame[:8], self._flipped(rest))
        if kind < 0.7 and rest:
            return framed(frame[:8], rest[: chance.randrange(len(rest))])
        if kind < 0.8:
            at = chance.randrange(len(rest) + 1)
            return framed(frame[:8], rest[:at] + chance.randbytes(chance.choice((1, 4, 100))) + rest[at:])
        if kind < 0.88:
            return framed(frame[:8], rest + chance.choice(self.pool)[8:])
        if kind < 0.92:
            return self._flipped(frame)
        if kind < 0.95:
            return frame[: chance.randrange(len(frame))]
        if kind < 0.98:
            length = chance.choice((0, 1, 7, 9, len(frame) + 1, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF))
            return struct.pack(">I", length) + frame[4:]
        return chance.randbytes(chance.choice((1, 8, 64, 1000)))
