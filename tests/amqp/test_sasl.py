"""Signing in: Proton's own client and scramp's client get in with the right password, and nothing else does."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import SASL, Connection, Endpoint, Transport
from scramp import ScramClient, ScramMechanism

from brokers.amqp.sasl import AMQP_HEADER, SASL_HEADER, SaslServer
from brokers.amqp.sasl_frames import encode_challenge, encode_mechanisms, encode_outcome

VERIFIER = ScramMechanism("SCRAM-SHA-256").make_auth_info("geheim", iteration_count=4096)


class OneUser:
    """anna, with the password geheim."""

    def check_plain(self, name: str, password: str) -> bool:
        return (name, password) == ("anna", "geheim")

    def scram(self) -> Callable[[str], tuple[bytes, bytes, bytes, int] | None]:
        return {"anna": VERIFIER}.get

    def external(self, subject: str) -> str | None:
        return {"CN=anna": "anna"}.get(subject)


def server(*, anonymous: bool = True, plain: bool = True) -> SaslServer:
    return SaslServer(OneUser(), anonymous=anonymous, plain=plain)


def frame(body: bytes, *, kind: int = 1, doff: int = 2) -> bytes:
    return (len(body) + 8).to_bytes(4, "big") + bytes([doff, kind, 0, 0]) + body


def performative(code: int, *fields: bytes) -> bytes:
    items = b"".join(fields)
    return frame(
        bytes([0, 0x53, code, 0xD0]) + (len(items) + 4).to_bytes(4, "big") + bytes([0, 0, 0, len(fields)]) + items
    )


def symbol(text: str) -> bytes:
    return b"\xa3" + bytes([len(text)]) + text.encode()


def binary(data: bytes) -> bytes:
    return b"\xb0" + len(data).to_bytes(4, "big") + data


def init(mechanism: str, initial: bytes | None = None) -> bytes:
    return performative(0x41, symbol(mechanism), b"\x40" if initial is None else binary(initial))


def response(data: bytes) -> bytes:
    return performative(0x43, binary(data))


PLAIN = b"\0anna\0geheim"


def challenge_in(out: bytes) -> bytes:
    """The challenge of the one frame, read the plain way."""
    assert encode_challenge(out[out.index(b"\xa0") + 2 :]) == out
    return out[out.index(b"\xa0") + 2 :]


def signed_in(server: SaslServer, user: str | None) -> bool:
    return server.done and not server.failed and server.user == user


def refused(server: SaslServer) -> bool:
    return server.failed and not server.done and server.user is None


def test_the_bytes_of_the_server_are_those_of_the_standard() -> None:
    assert encode_mechanisms(["SCRAM-SHA-256", "PLAIN"]).hex(" ") == (
        "00 00 00 2c 02 01 00 00 00 53 40 d0 00 00 00 1c 00 00 00 01 e0 16 02 a3"
        " 0d 53 43 52 41 4d 2d 53 48 41 2d 32 35 36 05 50 4c 41 49 4e"
    )
    assert encode_outcome(1).hex(" ") == "00 00 00 16 02 01 00 00 00 53 44 d0 00 00 00 06 00 00 00 01 50 01"


# Proton's client


class ProtonClient:
    def __init__(self, mechanism: str, user: str | None = None, password: str | None = None) -> None:
        self.connection = Connection()
        self.transport = Transport()
        if user:
            self.connection.user, self.connection.password = user, password
        sasl: SASL = self.transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs(mechanism)
        self.sasl = sasl
        self.transport.bind(self.connection)
        self.connection.open()

    def run(self, server: SaslServer) -> None:
        for _ in range(10):
            push(self.transport, server.receive(pull(self.transport)))
            if server.done or server.failed:
                return
        raise AssertionError("no end")


def pull(transport: Transport) -> bytes:
    pending = transport.pending()
    if pending <= 0:
        return b""
    data = transport.peek(pending)
    transport.pop(len(data))
    return data


def push(transport: Transport, data: bytes) -> None:
    if data and transport.capacity() > 0:
        transport.push(data)


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "anna"), ("ANONYMOUS", None)])
def test_protons_client_signs_in_and_opens_its_connection_on_the_rest(mechanism: str, user: str | None) -> None:
    client, sasl = ProtonClient(mechanism, user, "geheim"), server()
    client.run(sasl)
    assert signed_in(sasl, user)
    assert client.sasl.outcome == SASL.OK
    broker, connection = Transport(Transport.SERVER), Connection()
    broker.bind(connection)
    connection.open()
    data = sasl.rest
    for _ in range(5):
        push(broker, data)
        push(client.transport, pull(broker))
        data = pull(client.transport)
    assert connection.state & Endpoint.REMOTE_ACTIVE
    assert client.connection.state & Endpoint.REMOTE_ACTIVE


def test_protons_client_with_a_wrong_password_gets_an_error() -> None:
    client, sasl = ProtonClient("PLAIN", "anna", "wrong"), server()
    client.run(sasl)
    assert refused(sasl)
    assert client.sasl.outcome == SASL.AUTH
    assert "anna" in sasl.reason
    assert "wrong password" in sasl.reason


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "anna"), ("ANONYMOUS", None)])
def test_protons_client_does_not_find_a_mechanism_that_is_not_allowed(mechanism: str, user: str | None) -> None:
    client, sasl = ProtonClient(mechanism, user, "geheim"), server(anonymous=False, plain=False)
    with pytest.raises(AssertionError, match="no end"):
        client.run(sasl)
    assert client.sasl.outcome == SASL.AUTH or client.transport.condition


# SCRAM


def scram(sasl: SaslServer, name: str, password: str, *, initial: bool = True) -> tuple[ScramClient, bytes]:
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    first = client.get_client_first().encode()
    sasl.receive(SASL_HEADER)
    if initial:
        out = sasl.receive(init("SCRAM-SHA-256", first))
    else:
        assert sasl.receive(init("SCRAM-SHA-256")) == encode_challenge(b"")
        out = sasl.receive(response(first))
    if sasl.failed:
        return client, out
    client.set_server_first(challenge_in(out).decode())
    return client, sasl.receive(response(client.get_client_final().encode()))


@pytest.mark.parametrize("initial", [True, False])
def test_scram_signs_in_with_the_servers_signature_in_the_outcome(initial: bool) -> None:
    sasl = server()
    client, out = scram(sasl, "anna", "geheim", initial=initial)
    assert signed_in(sasl, "anna")
    last_word = out[out.index(b"v=") :]
    assert out == encode_outcome(0, last_word)
    client.set_server_final(last_word.decode())


@pytest.mark.parametrize(("name", "password"), [("anna", "wrong"), ("unknown", "geheim")])
def test_scram_with_a_wrong_password_or_name_is_refused_without_additional_data(name: str, password: str) -> None:
    sasl = server()
    _, out = scram(sasl, name, password)
    assert refused(sasl)
    assert out == encode_outcome(1)
    assert name in sasl.reason


def test_scram_proof_cannot_be_replayed() -> None:
    client = ScramClient(["SCRAM-SHA-256"], "anna", "geheim")
    first = init("SCRAM-SHA-256", client.get_client_first().encode())
    sasl = server()
    sasl.receive(SASL_HEADER)
    client.set_server_first(challenge_in(sasl.receive(first)).decode())
    final = response(client.get_client_final().encode())
    sasl.receive(final)
    assert sasl.done
    again = server()
    again.receive(SASL_HEADER + first + final)
    assert refused(again)


# Forms of PLAIN and ANONYMOUS


def test_a_password_that_is_changed_while_it_signs_in_is_refused() -> None:
    class Changing(OneUser):
        def scram(self) -> Callable[[str], tuple[bytes, bytes, bytes, int] | None]:
            later = ScramMechanism("SCRAM-SHA-256").make_auth_info("anders", iteration_count=4096)
            said = iter((VERIFIER, later))
            return lambda name: next(said)

    sasl = SaslServer(Changing(), anonymous=True, plain=True)
    scram(sasl, "anna", "geheim")
    assert refused(sasl)
    assert "was changed while it signed in" in sasl.reason


def test_plain_without_an_initial_response_gets_a_challenge() -> None:
    sasl = server()
    sasl.receive(SASL_HEADER)
    assert sasl.receive(init("PLAIN")) == encode_challenge(b"")
    assert sasl.receive(response(PLAIN)) == encode_outcome(0)
    assert signed_in(sasl, "anna")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"anna",
        b"\0anna",
        b"\0anna\0geheim\0",
        b"\0\0",
        b"otto\0anna\0geheim",
        b"\0anna\0\xff",
        b"\0an\nna\0geheim",
    ],
)
def test_a_plain_message_of_another_form_is_refused(message: bytes) -> None:
    sasl = server()
    sasl.receive(SASL_HEADER + init("PLAIN"))
    assert sasl.receive(response(message)) == encode_outcome(1)
    assert refused(sasl)


def test_plain_on_ones_own_behalf_is_accepted() -> None:
    sasl = server()
    sasl.receive(SASL_HEADER + init("PLAIN", b"anna" + PLAIN))
    assert signed_in(sasl, "anna")


@pytest.mark.parametrize("trace", [None, b"", b"someone@example"])
def test_anonymous_signs_in_without_a_user_whatever_its_trace(trace: bytes | None) -> None:
    sasl = server()
    sasl.receive(SASL_HEADER + init("ANONYMOUS", trace) + AMQP_HEADER)
    assert signed_in(sasl, None)
    assert sasl.rest == AMQP_HEADER


def test_the_other_encodings_of_an_init_are_read() -> None:
    name = b"amqp:sasl-init:list"
    items = b"\xb3\0\0\0\x05PLAIN" + b"\xa0" + bytes([len(PLAIN)]) + PLAIN + b"\xa1\x04host"
    for descriptor in (b"\x80" + (0x41).to_bytes(8, "big"), b"\xa3" + bytes([len(name)]) + name, b"\x53\x41"):
        sasl = server()
        body = b"\0" + descriptor + b"\xc0" + bytes([len(items) + 1, 3]) + items
        sasl.receive(SASL_HEADER + (len(body) + 12).to_bytes(4, "big") + b"\x03\x01\0\0more" + body + b"rest")
        assert signed_in(sasl, "anna")
        assert (sasl.hostname, sasl.rest) == ("host", b"rest")


# Skipping SASL, other protocols


def test_skipping_sasl_is_being_anonymous() -> None:
    sasl = server()
    assert sasl.receive(AMQP_HEADER + b"open") == b""
    assert signed_in(sasl, None)
    assert sasl.rest == AMQP_HEADER + b"open"


def test_skipping_sasl_fails_where_anonymous_is_not_allowed() -> None:
    sasl = server(anonymous=False)
    assert sasl.receive(AMQP_HEADER) == SASL_HEADER
    assert refused(sasl)
    assert "skipped SASL" in sasl.reason


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"AMQP\x02\x01\0\0", b"AMQP\0\0\x09\x01", b"x"]
)
def test_another_protocol_gets_the_header_that_would_do(data: bytes) -> None:
    sasl = server()
    assert sasl.receive(data) == SASL_HEADER
    assert refused(sasl)


# What a peer may not do


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(response(b"x"), "before the init", id="response first"),
        pytest.param(init("PLAIN") + init("PLAIN", PLAIN), "second init", id="init twice"),
        pytest.param(performative(0x40, symbol("PLAIN")), "may not send", id="mechanisms from a client"),
        pytest.param(performative(0x44, b"\x40"), "may not send", id="outcome from a client"),
        pytest.param(frame(b"", kind=0), "frame of type 0", id="AMQP frame"),
        pytest.param((4097).to_bytes(4, "big") + b"\x02\x01\0\0", "at most 4096", id="large"),
        pytest.param(b"\xff\xff\xff\xff\x02\x01\0\0", "at most 4096", id="huge"),
        pytest.param((7).to_bytes(4, "big") + b"\x02\x01\0\0", "frame of 7 bytes", id="shorter than its head"),
        pytest.param(frame(b"", doff=1), "starts at 4", id="body inside the head"),
        pytest.param(frame(b"", doff=3), "starts at 12", id="body after the end"),
        pytest.param(frame(b""), "after the end of its frame", id="no body"),
        pytest.param(frame(b"\x40"), "not a described list", id="null body"),
        pytest.param(frame(b"\0\x53\x41\x40"), "where a list should be", id="null list"),
        pytest.param(frame(b"\0\x53\x41\x45"), "without a mechanism", id="empty list"),
        pytest.param(performative(0x41, b"\xa1\x05PLAIN"), "without a mechanism", id="mechanism a string"),
        pytest.param(performative(0x41, symbol("PLAIN"), b"\xa1\x01x"), "another type", id="response a string"),
        pytest.param(performative(0x41, symbol("PLAIN"), b"\x54\x01"), "field of type 0x54", id="response a number"),
        pytest.param(performative(0x41, *[b"\x40"] * 4), "4 fields", id="too many fields"),
        pytest.param(performative(0x41, b"\xb3\xff\xff\xff\xff"), "after the end", id="length beyond the frame"),
        pytest.param(performative(0x41, b"\xa3\x01\xff"), "a text that is not", id="symbol not ASCII"),
        pytest.param(frame(b"\0\x53\x41\xc0\x02\xff\x40"), "more fields than bytes", id="count beyond the size"),
        pytest.param(frame(b"\0\x53\x41\xc0\x09\x01\x40"), "size is not that", id="size beyond the frame"),
        pytest.param(frame(b"\0\x53\x41\xc0\x03\x01\x40\x40"), "after the end of the list", id="bytes after the list"),
        pytest.param(init("PLAIN") + performative(0x43), "without a response", id="response without one"),
    ],
)
def test_a_malformed_or_misplaced_frame_fails_and_says_why(data: bytes, reason: str) -> None:
    sasl = server()
    sasl.receive(SASL_HEADER + data)
    assert refused(sasl)
    assert reason in sasl.reason
    assert sasl.receive(init("ANONYMOUS")) == b""
    assert refused(sasl)


@pytest.mark.parametrize(
    ("mechanism", "offered"), [("PLAIN", {"plain": False}), ("ANONYMOUS", {"anonymous": False}), ("EXTERNAL", {})]
)
def test_a_mechanism_that_was_not_offered_is_refused(mechanism: str, offered: dict[str, bool]) -> None:
    sasl = server(**offered)
    out = sasl.receive(SASL_HEADER)
    assert mechanism.encode() not in out
    assert sasl.receive(init(mechanism, PLAIN)) == encode_outcome(1)
    assert refused(sasl)


# Bytes of any kind, cut anywhere

CONVERSATIONS = [
    SASL_HEADER + init("PLAIN", PLAIN) + AMQP_HEADER + b"open",
    SASL_HEADER + init("PLAIN") + response(PLAIN) + AMQP_HEADER,
    SASL_HEADER + init("ANONYMOUS") + AMQP_HEADER,
    SASL_HEADER + init("PLAIN", b"\0anna\0wrong") + AMQP_HEADER,
    SASL_HEADER + init("SCRAM-SHA-256", b"n,,n=anna,r=abc") + response(b"c=biws,r=abc,p=YWJj"),
    AMQP_HEADER + b"open",
    b"GET / HTTP/1.1\r\n\r\n",
]


@given(data=st.data(), conversation=st.sampled_from([c for c in CONVERSATIONS if b"SCRAM" not in c]))
def test_where_the_bytes_are_cut_makes_no_difference(data: st.DataObject, conversation: bytes) -> None:
    whole = server()
    expected = whole.receive(conversation)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(conversation)))))
    parts = server()
    edges = [0, *cuts, len(conversation)]
    out = b"".join(parts.receive(conversation[a:b]) for a, b in pairwise(edges))
    assert out == expected
    assert (parts.done, parts.failed, parts.user, parts.rest) == (whole.done, whole.failed, whole.user, whole.rest)


def check_bounds(sasl: SaslServer) -> None:
    assert not (sasl.done and sasl.failed)
    assert len(sasl._buffer) < 4096
    assert sasl.done or sasl.user is None
    assert not sasl.failed or sasl.reason


@settings(max_examples=300)
@given(conversation=st.sampled_from(CONVERSATIONS), data=st.data())
def test_changed_bytes_never_raise_and_never_pile_up(conversation: bytes, data: st.DataObject) -> None:
    changed = bytearray(conversation)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
        if not changed:
            break
    sasl = server()
    sasl.receive(bytes(changed))
    check_bounds(sasl)
    sasl.receive(b"\0" * 5000)
    check_bounds(sasl)
    assert sasl.done or sasl.failed or not sasl._buffer


@given(chunks=st.lists(st.binary(max_size=64), max_size=20), start=st.sampled_from([b"", SASL_HEADER, b"AMQP"]))
def test_any_bytes_never_raise_and_never_sign_in_a_user(chunks: list[bytes], start: bytes) -> None:
    sasl = server()
    sasl.receive(start)
    for chunk in chunks:
        sasl.receive(chunk)
        check_bounds(sasl)
    assert sasl.user is None


SCRAM_TEXT = st.text(alphabet=st.sampled_from("nyp=,rcvesiamAb1+/ü\0\u0627٣biws"), max_size=40)


@settings(max_examples=300)
@given(first=SCRAM_TEXT, final=SCRAM_TEXT, bare=st.booleans())
def test_any_scram_messages_never_raise_and_never_sign_in(first: str, final: str, bare: bool) -> None:
    sasl = server()
    sasl.receive(SASL_HEADER)
    out = sasl.receive(init("SCRAM-SHA-256", (first if bare else "n,,n=anna,r=abc").encode() or b"x"))
    nonce = out[out.index(b"r=") :].split(b",")[0].decode() if b"r=" in out else "r=x"
    sasl.receive(response((final if bare else f"c=biws,{nonce},{final}").encode()))
    assert refused(sasl)


# EXTERNAL, and who is made to wait


def external(subject: str | None, *said: bytes) -> SaslServer:
    server = SaslServer(OneUser(), anonymous=False, plain=True, certificate=subject)
    server.receive(SASL_HEADER)
    for piece in said:
        server.receive(piece)
    return server


@pytest.mark.parametrize(
    "said",
    [(init("EXTERNAL", b""),), (init("EXTERNAL", b"anna"),), (init("EXTERNAL"), response(b""))],
    ids=["empty", "its own name", "after a challenge"],
)
def test_a_certificate_that_is_somebodys_signs_in(said: tuple[bytes, ...]) -> None:
    assert signed_in(external("CN=anna", *said), "anna")


@pytest.mark.parametrize(
    ("subject", "authzid", "why"),
    [
        (None, b"", "was not offered"),
        ("CN=otto", b"", "no user has the certificate_subject 'CN=otto'"),
        ("", b"", "no user has the certificate_subject ''"),
        ("CN=anna", b"otto", "may not act on behalf of another"),
        ("CN=anna", b"\xff", "may not act on behalf of another"),
    ],
)
def test_certificate_without_a_user_or_of_another_user_is_refused(
    subject: str | None, authzid: bytes, why: str
) -> None:
    server = external(subject, init("EXTERNAL", authzid))
    assert refused(server)
    assert why in server.reason


class Closed:
    """A gate that lets `free` questions through, and counts."""

    def __init__(self, free: int = 0) -> None:
        self.free = free
        self.calls: list[str] = []

    def wait_ms(self, user: str) -> int:
        self.free -= 1
        return 0 if self.free >= 0 else 1500

    def check_wait_ms(self, user: str) -> int:
        return 0

    def failed(self, user: str) -> None:
        self.calls.append(f"{user} failed")

    def succeeded(self, user: str) -> None:
        self.calls.append(f"{user} succeeded")


def scram_with(gate: Closed, password: str) -> SaslServer:
    server = SaslServer(OneUser(), anonymous=False, plain=True, gate=gate)
    client = ScramClient(["SCRAM-SHA-256"], "anna", password)
    server.receive(SASL_HEADER)
    out = server.receive(init("SCRAM-SHA-256", client.get_client_first().encode()))
    if not server.failed:
        client.set_server_first(challenge_in(out).decode())
        server.receive(response(client.get_client_final().encode()))
    return server


@pytest.mark.parametrize("free", [0, 1])
def test_paused_user_is_refused_even_with_the_right_password(free: int) -> None:
    for server in (
        scram_with(Closed(free), "geheim"),
        SaslServer(OneUser(), anonymous=False, plain=True, gate=Closed(0)),
    ):
        out = b"" if server.failed else server.receive(SASL_HEADER + init("PLAIN", PLAIN))
        assert refused(server)
        assert "too many attempts of 'anna': refused for another 1.5 s" in server.reason
        assert not out or out.endswith(encode_outcome(4))  # sys-temp: try again later


def test_every_outcome_is_counted_once() -> None:
    for password, call in (("geheim", "anna succeeded"), ("wrong", "anna failed")):
        gate = Closed(10)
        scram_with(gate, password)
        assert gate.calls == [call]
        server = SaslServer(OneUser(), anonymous=False, plain=True, gate=gate)
        server.receive(SASL_HEADER + init("PLAIN", f"\0anna\0{password}".encode()))
        assert gate.calls == [call] * 2
