"""Signing in: the server side of AMQP 1.0's SASL layer, before Proton gets any byte of a connection.

Proton built without Cyrus SASL offers servers neither PLAIN nor SCRAM, so this is done here: bytes in, bytes out, no
socket, loop or clock. Any input ends in `done` or `failed`: no error is raised, and at most one frame is buffered.

The exchange (SCRAM-SHA-256, RFC 7677; PLAIN, RFC 4616; EXTERNAL, RFC 4422; ANONYMOUS, RFC 4505):

    client: AMQP 3 1 0 0                    server: AMQP 3 1 0 0, mechanisms
    client: init(mechanism, initial)        server: challenge, or outcome
    client: response                        server: challenge, or outcome
    client: AMQP 0 1 0 0 ...                (for the transport: `rest`)

SCRAM's final server message is the additional-data of the outcome: an outcome ends the layer, and clients such as
Qpid JMS refuse an outcome "ok" without the server's signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scramp import ScramException, ScramMechanism
from scramp.utils import saslprep

from brokers.amqp.sasl_frames import (
    AUTH,
    OK,
    SYS_TEMP,
    Init,
    MalformedFrame,
    Response,
    decode,
    encode_challenge,
    encode_mechanisms,
    encode_outcome,
    frame_length,
)

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"

EXTERNAL, SCRAM, PLAIN, ANONYMOUS = "EXTERNAL", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS"


class Authenticator(Protocol):
    """The users and their credentials."""

    def check_plain(self, name: str, password: str) -> bool:
        """Return whether the password is correct."""
        ...

    def scram(self) -> Callable[[str], tuple[bytes, bytes, bytes, int] | None]:
        """Return a function from a user to salt, stored key, server key and iterations; None if unknown."""
        ...

    def external(self, subject: str) -> str | None:
        """Return the user of a verified client certificate with this subject (RFC 4514), if any."""
        ...


class Gate(Protocol):
    """Delays against guessing passwords, for one remote address."""

    def wait_ms(self, user: str) -> int:
        """Return for how many ms attempts of this user are refused unchecked; 0: not refused."""
        ...

    def check_wait_ms(self, user: str) -> int:
        """Return for how many ms no password is checked after too many wrong ones; 0: check it."""
        ...

    def failed(self, user: str) -> None: ...

    def succeeded(self, user: str) -> None: ...


class _Open:
    """A gate without delays."""

    def wait_ms(self, user: str) -> int:
        return 0

    def check_wait_ms(self, user: str) -> int:
        return 0

    def failed(self, user: str) -> None:
        pass

    def succeeded(self, user: str) -> None:
        pass


class SaslServer:
    """The sign-in of one connection. `certificate`: the subject of the peer's verified certificate, if it sent one.

    `done`: signed in; `user` is the name, None if anonymous, and `rest` are the bytes for the AMQP transport, protocol
    header first. `failed`: send the output of `receive`, then close; `reason` is for the log. `hostname`: from the
    client's init, if set.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        anonymous: bool,
        plain: bool,
        certificate: str | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._authenticator = authenticator
        self._anonymous = anonymous
        self._certificate = certificate
        self._gate = gate or _Open()
        offered = {EXTERNAL: certificate is not None, SCRAM: True, PLAIN: plain, ANONYMOUS: anonymous}
        self._mechanisms = [mechanism for mechanism, is_offered in offered.items() if is_offered]
        self._buffer = bytearray()
        #: A function, not a bound method: that would be a reference cycle that retains the sign-in's data in memory.
        self._step: Callable[[SaslServer, bytes], bytes] = SaslServer._on_protocol_header
        self._exchange: _Exchange | None = None
        self.done = False
        self.failed = False
        self.reason = ""
        self.user: str | None = None
        self.hostname: str | None = None
        self.rest = b""

    def receive(self, data: bytes) -> bytes:
        """Process input from the peer and return output to send. Input after `done` is added to `rest`, after `failed`
        it is ignored."""
        if self.failed:
            return b""
        if self.done:
            self.rest += data
            return b""
        self._buffer += data
        out = b""
        try:
            while not (self.done or self.failed) and (piece := self._piece()):
                out += self._step(self, piece)
        except MalformedFrame as error:
            self._fail(str(error))
        if self.done:
            self.rest = bytes(self._buffer)
        if self.done or self.failed:
            self._buffer.clear()
            self._exchange = None
        return out

    def _piece(self) -> bytes | None:
        """Take the next complete header or frame from the buffer; None if it is incomplete."""
        length = 8
        if self._step is SaslServer._on_protocol_header:
            # Early, so that the server does not wait for a peer with another protocol.
            if not self._buffer.startswith(b"AMQP"[: len(self._buffer)]):
                length = 0
        elif len(self._buffer) >= 8:
            length = frame_length(self._buffer)
        if len(self._buffer) < max(length, 1):
            return None
        piece = bytes(self._buffer[: length or 8])
        del self._buffer[: length or 8]
        return piece

    # Steps: each processes a header or frame and returns the answer.

    def _on_protocol_header(self, header: bytes) -> bytes:
        if header == SASL_HEADER:
            self._step = SaslServer._on_init
            return SASL_HEADER + encode_mechanisms(self._mechanisms)
        if header == AMQP_HEADER and self._anonymous:
            self.done = True
            self._buffer[:0] = header  # for the transport
            return b""
        # Part 2.2 of the standard: answer with the header that would be accepted, then close.
        self._fail("the client skipped SASL" if header == AMQP_HEADER else f"not a protocol header: {header!r}")
        return SASL_HEADER

    def _on_init(self, frame: bytes) -> bytes:
        init = decode(frame)
        if not isinstance(init, Init):
            raise MalformedFrame("a response before the init")
        self.hostname = init.hostname
        if init.mechanism not in self._mechanisms:
            return self._refuse(f"mechanism {init.mechanism[:40]!r} was not offered")
        if init.mechanism == ANONYMOUS:
            return self._accept(None)
        self._exchange = self._begin(init.mechanism)
        self._step = SaslServer._on_response
        if init.initial_response is None or (not init.initial_response and init.mechanism != EXTERNAL):
            # A client may wait for the server's challenge (RFC 4422 section 3.3): all mechanisms begin with an empty
            # one.
            return encode_challenge(b"")
        return self._exchanged(init.initial_response)

    def _begin(self, mechanism: str) -> _Exchange:
        if mechanism == EXTERNAL:
            return _External(self._authenticator, self._certificate or "")
        return (_Plain if mechanism == PLAIN else _Scram)(self._authenticator, self._gate)

    def _on_response(self, frame: bytes) -> bytes:
        response = decode(frame)
        if not isinstance(response, Response):
            raise MalformedFrame("a second init")
        return self._exchanged(response.response)

    def _exchanged(self, message: bytes) -> bytes:
        assert self._exchange is not None
        try:
            challenge = self._exchange.receive(message)
        except _Refused as refusal:
            return self._refuse(str(refusal), refusal.outcome)
        if challenge is not None:
            return encode_challenge(challenge)
        return self._accept(self._exchange.user, self._exchange.additional_data)

    # Ends

    def _accept(self, user: str | None, additional_data: bytes | None = None) -> bytes:
        self.done, self.user = True, user
        return encode_outcome(OK, additional_data)

    def _refuse(self, reason: str, outcome: int = AUTH) -> bytes:
        self._fail(reason)
        return encode_outcome(outcome)

    def _fail(self, reason: str) -> None:
        self.failed, self.reason = True, reason


class _Refused(Exception):
    """The credentials are wrong, or not in the mechanism's format."""

    def __init__(self, reason: str, outcome: int = AUTH) -> None:
        super().__init__(reason)
        self.outcome = outcome


def _check_gate(gate: Gate, user: str) -> None:
    if wait := gate.wait_ms(user):
        raise _Refused(f"too many attempts of {user!r}: refused for another {wait / 1000:.1f} s", SYS_TEMP)


class _Exchange(Protocol):
    user: str
    additional_data: bytes | None  # of the outcome

    def receive(self, message: bytes) -> bytes | None:
        """Return the next challenge, or None when the user is signed in. Raises _Refused."""
        ...


class _External:
    """EXTERNAL: the TLS layer has verified the certificate; this finds its user."""

    def __init__(self, authenticator: Authenticator, subject: str) -> None:
        self._authenticator = authenticator
        self._subject = subject
        self.user = ""
        self.additional_data: bytes | None = None

    def receive(self, message: bytes) -> None:
        user = self._authenticator.external(self._subject)
        if user is None:
            raise _Refused(f"no user has the certificate_subject {self._subject!r}")
        if message not in (b"", user.encode()):
            raise _Refused(f"user {user!r} may not act on behalf of another")
        self.user = user


class _Plain:
    def __init__(self, authenticator: Authenticator, gate: Gate) -> None:
        self._authenticator = authenticator
        self._gate = gate
        self.user = ""
        self.additional_data: bytes | None = None

    def receive(self, message: bytes) -> None:
        try:
            on_behalf_of, name, password = message.decode("utf-8").split("\0")
            user = saslprep(name)
        except (ValueError, ScramException):
            raise _Refused("a PLAIN message that is not") from None
        if on_behalf_of not in ("", name):
            raise _Refused(f"user {user!r} may not act on behalf of another")
        _check_gate(self._gate, user)
        if wait := self._gate.check_wait_ms(user):
            raise _Refused(
                f"too many wrong passwords at once: {user!r} refused for another {wait / 1000:.1f} s", SYS_TEMP
            )
        if not self._authenticator.check_plain(name, password):
            self._gate.failed(user)
            raise _Refused(f"wrong password, or no such user: {user!r}")
        self._gate.succeeded(user)
        self.user = user


class _Scram:
    def __init__(self, authenticator: Authenticator, gate: Gate) -> None:
        self._gate = gate
        self._lookup = authenticator.scram()
        self._server = ScramMechanism(SCRAM).make_server(self._verifier)
        self._first = True
        self._first_verifier: object = None  # with which the exchange began
        self.user = ""
        self.additional_data: bytes | None = None

    def _verifier(self, name: str) -> tuple[bytes, bytes, bytes, int] | None:
        self.user = name
        self._first_verifier = verifier = self._lookup(name)
        return verifier

    def receive(self, message: bytes) -> bytes | None:
        try:
            text = message.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _Refused(f"a SCRAM message that is not text: {error}") from None
        try:
            if self._first:
                self._first = False
                self._server.set_client_first(text)
                challenge = str(self._server.get_server_first()).encode()
                _check_gate(self._gate, self.user)
                return challenge
        except ScramException as error:
            raise _Refused(f"SCRAM sign-in of {self.user!r}: {error}") from None
        _check_gate(self._gate, self.user)  # again: many exchanges may have begun at once
        try:
            self._server.set_client_final(text)
            self.additional_data = str(self._server.get_server_final()).encode()
        except ScramException as error:
            self._gate.failed(self.user)
            raise _Refused(f"SCRAM sign-in of {self.user!r}: {error}") from None
        if self._lookup(self.user) != self._first_verifier:
            raise _Refused(f"the password of {self.user!r} was changed while it signed in")
        self._gate.succeeded(self.user)
        return None
