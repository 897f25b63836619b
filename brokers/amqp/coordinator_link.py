"""The link to the transaction coordinator, with which a client begins and ends its local transactions (AMQP 1.0, 4.3).

A transaction belongs to its connection: messages and acknowledgements of any link on any session can be in it. It
ends with the link on which it was declared; if it was not discharged by then, it is rolled back.
"""

from __future__ import annotations

import re
from typing import Any

from proton import Described

from brokers.amqp import proton as pn
from brokers.amqp.incoming_link import IncomingLink
from brokers.amqp.link import RESOURCE_LIMIT, TRANSFER_LIMIT, UNKNOWN_TRANSACTION
from brokers.amqp.link_context import LinkContext
from brokers.amqp.proton import ACCEPTED, delivery_settle, delivery_update, link_credit, link_flow
from brokers.engine.registry.transaction import State, Transaction
from brokers.engine.services.transactions import MOST_OPEN

#: Requests that a client may send before they are answered.
CREDIT = 64

NOT_IMPLEMENTED, DECODE_ERROR = "amqp:not-implemented", "amqp:decode-error"

_DECLARE = (0x31, "amqp:declare:list")
_DISCHARGE = (0x32, "amqp:discharge:list")
_VALUE = (0x77, "amqp:amqp-value:*")

#: Requests as most clients encode them: to declare a transaction, or to end the one with this id as this boolean says.
#: Reading any other takes fifty times as long.
_USUAL = re.compile(
    rb"""(?: \x00Sp\x45 )? (?: \x00Ss\x45 )?  # no header fields, and no properties
    \x00Sw\x00S (?: 1 (?: \x45 | \xc0\x02\x01\x40 | \xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40 )
        | 2 (?: \xc0\x0c\x02 | \xd0\x00\x00\x00\x0f\x00\x00\x00\x02 ) \xa0\x08 (.{8}) ([\x41\x42]) )""",
    re.DOTALL | re.VERBOSE,
)


class CoordinatorLink(IncomingLink):
    """`discharging`: transaction whose discharge is pending -> its delivery, and whether it is a rollback."""

    __slots__ = ("discharging",)

    CAPABILITIES = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
    max_size = 4096

    def __init__(self, context: LinkContext, pointer: Any) -> None:
        super().__init__(context, pointer)
        self.discharging: dict[Transaction, tuple[Any, bool]] = {}

    def open(self) -> None:
        """Give the client its first credit, and read the state of each of its messages from now on."""
        self.context.begin_transactions()
        self._top_up()

    def on_delivery(self, delivery: Any) -> None:
        if self.closing or pn.delivery_aborted(delivery):
            self.forget_parts()
            delivery_settle(delivery)
            return
        if not pn.delivery_readable(delivery):
            if pn.delivery_settled(delivery):
                self._settled_by_client(delivery)
            return
        body = self.receive(delivery)
        if body is None:
            return
        if link_credit(self.pointer) <= 0:
            self.refuse(delivery, TRANSFER_LIMIT, "the request was not accepted: the link had no credit")
            return
        try:
            kind, fields = _request(body)
        except ValueError as error:
            self.refuse(delivery, DECODE_ERROR, f"not a request to a transaction coordinator: {error}")
            return
        if kind in _DECLARE:
            self._declare(delivery, *[*fields, None][:1])
        elif kind in _DISCHARGE:
            self._discharge(delivery, *[*fields, None, None][:2])
        else:
            self.refuse(delivery, NOT_IMPLEMENTED, f"a transaction coordinator does not support {kind}")
        self._top_up()

    def _settled_by_client(self, delivery: Any) -> None:
        """Forget the delivery of a request whose client no longer waits for the answer."""
        for transaction, (waiting, failed) in self.discharging.items():
            if waiting == delivery:
                self.discharging[transaction] = (None, failed)
        delivery_settle(delivery)

    def _declare(self, delivery: Any, global_id: Any) -> None:
        engine = self.context.engine
        assert engine is not None
        if global_id is not None:
            self.reject(delivery, NOT_IMPLEMENTED, "distributed transactions are not supported")
            return
        if pn.delivery_settled(delivery):
            self.refuse(
                delivery, "amqp:not-allowed", "a declaration must not be sent settled: the client would not get the id"
            )
            return
        transaction = self.context.broker.transactions.declare(engine, self)
        if transaction is None:
            self.reject(delivery, RESOURCE_LIMIT, f"the connection has {MOST_OPEN:,} transactions open")
            return
        pn.delivery_declared(delivery, transaction.id)
        delivery_settle(delivery)

    def _discharge(self, delivery: Any, identity: Any, failed: Any) -> None:
        transaction = self._transactions.get(identity) if isinstance(identity, bytes) else None
        if transaction is None or transaction in self.discharging or transaction.handle is not self:
            self.reject(delivery, UNKNOWN_TRANSACTION, "there is no such transaction open on this link")
            return
        if pn.delivery_settled(delivery):
            delivery_settle(delivery)
            self.discharging[transaction] = (None, bool(failed))
        else:
            pn.link_advance(self.pointer)
            self.discharging[transaction] = (delivery, bool(failed))
        transactions = self.context.broker.transactions
        if failed:
            transactions.roll_back(transaction)
        else:
            transactions.commit(transaction)

    def discharged(self, transaction: Transaction) -> None:
        """Answer the discharge. If the broker ended the transaction, the client gets its error with the discharge."""
        for acknowledgement in transaction.acknowledged:
            if acknowledgement.delivery is not None:
                acknowledgement.consumer.handle.settle_discharged(acknowledgement)
        transaction.acknowledged.clear()
        delivery, failed = self.discharging.pop(transaction, (None, False))
        if delivery is None:
            return
        if transaction.state is State.COMMITTED or failed:
            delivery_update(delivery, ACCEPTED)
            delivery_settle(delivery)
        else:
            condition, text = transaction.fault or (UNKNOWN_TRANSACTION, "the transaction has ended")
            self.reject(delivery, condition, text)
        self._top_up()
        self.context.dirty()
        if failed:
            self.context.frame()  # the rollback is confirmed before its messages are delivered again

    def _top_up(self) -> None:
        credit = link_credit(self.pointer)
        if not self.closing and not self.far_ahead and credit <= CREDIT // 2:
            link_flow(self.pointer, CREDIT - credit - len(self.discharging))
        self.context.dirty()

    def release(self) -> None:
        super().release()
        self.discharging.clear()
        transactions = self.context.broker.transactions
        for transaction in [t for t in self._transactions.values() if t.handle is self]:
            transactions.roll_back(transaction)


def _request(message: bytes) -> tuple[Any, list[Any]]:
    """Return (descriptor, fields) of the message's value. Raises ValueError."""
    if usual := _USUAL.fullmatch(message):
        identity, failed = usual.groups()
        return (_DECLARE[0], []) if identity is None else (_DISCHARGE[0], [identity, failed == b"\x41"])
    at = 0
    while at < len(message):
        length, section = pn.decode_first(memoryview(message)[at:])
        at += length
        if isinstance(section, Described) and section.descriptor in _VALUE:
            request = section.value
            if isinstance(request, Described) and isinstance(request.value, list):
                return request.descriptor, request.value
            break
    raise ValueError("the message's body is not a described list")
