"""The console's driver over TLS: it connects only to trusted brokers, and sends its password nowhere else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.admin import BrokerUnreachable, NotAllowed
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from brokers.server.listening import TlsAddress
from brokers.server.service import SECRET, Service
from brokers.server.tls import TlsFiles
from tests.certificates import Authority

LIMIT = 10.0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


async def serving(data: Path, files: TlsFiles) -> AsyncIterator[Service]:
    service = Service(data, port=0, tls=TlsAddress(files, port=0))
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def service(tmp_path: Path, authority: Authority) -> AsyncIterator[Service]:
    async for running in serving(tmp_path / "broker", authority.server()):
        yield running


async def connect(service: Service, trusted: Authority, password: str = "", user: str = "console") -> BundledBroker:
    tls = ssl.create_default_context(cafile=str(trusted.ca))
    secret = password or (service.data / SECRET).read_text().strip()
    return await BundledBroker.connect("127.0.0.1", service.tls_port, user, secret, tls=tls, timeout=LIMIT)


async def test_a_trusted_broker_is_driven_over_tls(service: Service, authority: Authority) -> None:
    broker = await connect(service, authority)
    many = [object_name("Queue", virtualhost="default", name=f"queue-{n}") for n in range(300)]
    stream = broker.events()
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.gather(*(broker.create(name, {}) for name in many))
    assert (await broker.query("Queue", count=500)).total == 300
    async with asyncio.timeout(LIMIT):
        assert (await waiting).kind == "queue-created"
    await broker.close()


async def test_a_broker_of_another_authority_is_not_talked_to(service: Service, tmp_path: Path) -> None:
    with pytest.raises(BrokerUnreachable, match="is not trusted: unable to get local issuer certificate"):
        await connect(service, Authority(tmp_path / "stranger"))


async def test_a_broker_with_an_expired_certificate_is_not_talked_to(tmp_path: Path, authority: Authority) -> None:
    expired = TlsFiles(*authority.issue("old", "127.0.0.1", expired=True))
    async for service in serving(tmp_path / "broker", expired):
        with pytest.raises(BrokerUnreachable, match="is not trusted: certificate has expired"):
            await connect(service, authority)


async def test_a_broker_of_another_name_is_not_talked_to(tmp_path: Path, authority: Authority) -> None:
    elsewhere = TlsFiles(*authority.issue("elsewhere", "broker.example.org"))
    async for service in serving(tmp_path / "broker", elsewhere):
        with pytest.raises(BrokerUnreachable, match="is not trusted: IP address mismatch"):
            await connect(service, authority)


async def test_without_tls_no_password_leaves_the_machine() -> None:
    with pytest.raises(NotAllowed, match=r"could be read on its way to 203\.0\.113\.9:5672: connect with TLS"):
        await BundledBroker.connect("203.0.113.9", 5672, "console", "secret", timeout=LIMIT)


async def test_wrong_password_and_too_many_attempts_raise_different_errors(
    service: Service, authority: Authority
) -> None:
    admin = await connect(service, authority)
    given = {"password": "a password of ann", "administrator": True}
    await admin.create(object_name("User", name="ann"), given)
    for _ in range(5):
        with pytest.raises(NotAllowed, match="does not take user 'ann'"):
            await connect(service, authority, "wrong", "ann")
    with pytest.raises(BrokerUnreachable, match="failed attempts"):
        await connect(service, authority, "a password of ann", "ann")
    for _ in range(6):  # the console's own secret is generated: it is not guessed, and has no pause
        with pytest.raises(NotAllowed, match="does not take user 'console'"):
            await connect(service, authority, "wrong")
    await (await connect(service, authority)).close()
    await admin.close()
