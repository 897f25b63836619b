"""The tables of the brokers that administrators added: what is configured, where each is served, and what is stored of
it.

Only `console/operations/brokers.py` writes `ForeignBroker`, so that each change has an audit row, `hosting.py` writes
`ServedBroker`, and `database_records.py` the others.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from brokers.adapters.kinds import Account
from console.brokers.keys import decrypt


class ForeignBroker(models.Model):
    """`kind`: of `brokers/adapters/kinds.py`. `encrypted`: the password, see `keys.py`; never shown. `authority`: PEM
    text or path of a PEM file, "": the system's. `revision`: counts changes."""

    slug = models.SlugField(max_length=30, unique=True)
    title = models.CharField(max_length=80)
    kind = models.CharField(max_length=30)
    url = models.CharField(max_length=500)
    username = models.CharField(max_length=255, blank=True)
    encrypted = models.TextField(blank=True)
    authority = models.TextField(blank=True)
    tags = models.JSONField(default=list)
    paused = models.BooleanField(default=False)
    revision = models.PositiveIntegerField(default=1)
    changed = models.DateTimeField(auto_now=True)

    objects: ClassVar[models.Manager[ForeignBroker]] = models.Manager()

    class Meta:
        default_permissions = ()
        ordering = ["title", "slug"]

    def __str__(self) -> str:
        return f"broker {self.slug}"

    def account(self) -> Account:
        """Return the address with the decrypted password. Raises KeyMissing."""
        return Account(self.url, self.username, decrypt(self.encrypted) if self.encrypted else "", self.authority)

    def for_audit(self) -> dict[str, Any]:
        """Return the values for an audit row: not the password."""
        return {
            "title": self.title,
            "kind": self.kind,
            "url": self.url,
            "username": self.username,
            "authority": self.authority,
            "tags": self.tags,
            "paused": self.paused,
        }


class ServedBroker(models.Model):
    """Where a broker is served now, written by the process that owns its lease. `process`: see `leases/process.py`.
    `encrypted`: the password of the user `console` there. `certificate`: PEM text of the only certificate to trust;
    "": without TLS, which is so on loopback only."""

    broker = models.OneToOneField(ForeignBroker, models.CASCADE, primary_key=True, related_name="served")
    process = models.CharField(max_length=200)
    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    encrypted = models.TextField()
    certificate = models.TextField(blank=True)

    objects: ClassVar[models.Manager[ServedBroker]] = models.Manager()

    class Meta:
        default_permissions = ()


class BrokerRecords(models.Model):
    """What is stored of the broker `slug`, also after it was removed: its numbers continue when it is added again.
    `writer`: of those that opened it, the last one, which alone may write. `identity`, `first`, `last`: of the events,
    see `brokers/adapters/records.py`; `size`: of the retained ones, bytes."""

    slug = models.CharField(max_length=30, primary_key=True)
    writer = models.CharField(max_length=32)
    identity = models.CharField(max_length=32)
    first = models.BigIntegerField(default=1)
    last = models.BigIntegerField(default=0)
    size = models.BigIntegerField(default=0)

    objects: ClassVar[models.Manager[BrokerRecords]] = models.Manager()

    class Meta:
        default_permissions = ()


class BrokerEvent(models.Model):
    """`at`: ms since the epoch. `fact`: see `fact_text` in `brokers/adapters/records.py`."""

    pk = models.CompositePrimaryKey("slug", "number")
    slug = models.CharField(max_length=30)
    number = models.BigIntegerField()
    at = models.BigIntegerField()
    size = models.IntegerField()
    fact = models.TextField()

    objects: ClassVar[models.Manager[BrokerEvent]] = models.Manager()

    class Meta:
        default_permissions = ()


class BrokerStop(models.Model):
    """A stop (`part` is "stop"), a target of stops ("target") or a change without an event ("change"), as JSON text of
    its `record()`."""

    slug = models.CharField(max_length=30, db_index=True)
    part = models.CharField(max_length=10)
    record = models.TextField()

    objects: ClassVar[models.Manager[BrokerStop]] = models.Manager()

    class Meta:
        default_permissions = ()


class KnownObject(models.Model):
    """The remembered attributes of an object. `digest`: SHA-256 of its name, which may be too long for an index.
    `record`: JSON text of name and attributes."""

    pk = models.CompositePrimaryKey("slug", "digest")
    slug = models.CharField(max_length=30)
    digest = models.CharField(max_length=64)
    record = models.TextField()

    objects: ClassVar[models.Manager[KnownObject]] = models.Manager()

    class Meta:
        default_permissions = ()
