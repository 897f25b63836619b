"""The facade that the server drives: virtual hosts, connections, links, stops, and what time does.

Refusals that a client can cause by what it asks for are raised as the errors of `brokers.admin`, since the management
node and the links both answer with them. What must survive a restart is left in `turn.keep`, record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count, groupby
from typing import Any

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.engine.connection import ANONYMOUS, Connection, ContainerInUse
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Close, Detach, Keep, Turn
from brokers.engine.ports import Store, Stores
from brokers.engine.queues.consumer import Consumer
from brokers.engine.queues.deep_queue import DeepQueue
from brokers.engine.queues.durable_queue import DurableQueue
from brokers.engine.queues.groups import Groups
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.virtualhost import DEFAULT, VirtualHost
from brokers.engine.services.accounts import Accounts
from brokers.engine.services.dead_letters import DeadLetters
from brokers.engine.services.enforcement import Enforcement
from brokers.engine.services.records import Records
from brokers.engine.services.routing import Routing, Target
from brokers.engine.services.shortages import Shortages
from brokers.engine.services.slow_consumers import SlowConsumers
from brokers.engine.services.stopping import Stopping
from brokers.engine.services.subscriptions import Subscriptions
from brokers.engine.services.temporary import Temporary, check_not_gone
from brokers.engine.services.transaction import Transactions
from brokers.engine.values.events import queue_subject
from brokers.engine.values.names import check_name
from brokers.engine.values.policy import Value
from brokers.engine.values.stops import Scope, Stop
from brokers.model import ObjectName, object_name


class Broker:
    """`started` and `turn.now` in ms since the epoch. `defaults`: policy fields for every queue."""

    def __init__(self, now: int, *, version: str = "", stores: Stores | None = None) -> None:
        self.turn = Turn(now)
        self.stores = stores  # None: durable queues are remembered, their messages are not
        self.last_store_id = 0  # of durable queues: never given twice
        self.started = now
        self.product_version = version
        self.object_name: ObjectName = object_name("Broker")
        self.version = 1
        self.defaults: dict[str, Value] = {}
        self.virtualhosts: dict[str, VirtualHost] = {}
        self.connections: dict[int, Connection] = {}
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.stops: dict[Scope, Stop] = {}
        self.last_event = 0
        self.log = ""  # where the broker log lies, for people
        self.journal = ""  # identity of the journal that numbers the events
        self.enforcement = Enforcement(self)
        self.routing = Routing(self)
        self.shortages = Shortages(self)
        self.stopping = Stopping(self)
        self.subscriptions = Subscriptions(self)
        self.temporary = Temporary(self)
        self.slow_consumers = SlowConsumers(self)
        self.records = Records(self)
        self.accounts = Accounts(self)
        self.dead_letters = DeadLetters(self)
        self.transactions = Transactions(self)
        self._numbers = count(1)
        self._temp_ids = count(1)
        self.temp: Store | None = None
        self.turn.temp = self._open_temp
        self._minute = now // 60_000
        self._sampled_at = now

    # -- objects ----------------------------------------------------------------------------------------------

    def virtualhost(self, name: str) -> VirtualHost:
        try:
            return self.virtualhosts[name]
        except KeyError:
            raise NotFound(f"there is no virtual host {name}") from None

    def queue(self, virtualhost: str, name: str) -> Queue:
        try:
            return self.virtualhost(virtualhost).queues[name]
        except KeyError:
            raise NotFound(f"there is no queue {name} in virtual host {virtualhost}") from None

    def queues(self) -> Iterator[Queue]:
        for host in self.virtualhosts.values():
            yield from host.queues.values()

    def _has(self, queue: Queue) -> bool:
        """Whether the queue is still there: what its consumers held may come back after it was deleted."""
        host = self.virtualhosts.get(queue.virtualhost)
        return host is not None and host.queues.get(queue.name) is queue

    def create_virtualhost(self, name: str) -> VirtualHost:
        check_name("virtual host", name)
        if name in self.virtualhosts:
            raise AlreadyExists(f"there is a virtual host {name} already")
        host = self.add_virtualhost(name)
        self.records.keep_virtualhost(host)
        return host

    def add_virtualhost(self, name: str) -> VirtualHost:
        host = self.virtualhosts[name] = VirtualHost(name)
        host.meter = self.shortages.meter(host)
        return host

    def delete_virtualhost(self, host: VirtualHost) -> None:
        if any(c.virtualhost == host.name for c in self.connections.values()):
            raise InvalidValue({"name": f"virtual host {host.name} has open connections: close them first"})
        for queue in list(host.queues.values()):
            self.delete_queue(queue)
        for exchange in list(host.exchanges.values()):
            self.routing.delete_exchange(exchange)
        for policy in list(host.policies.by_pattern.values()):
            self.enforcement.delete_policy(policy)
        for slow in list(host.slow_consumer_policies.values()):
            self.slow_consumers.delete(slow)
        del self.virtualhosts[host.name]
        self.shortages.forget(host)
        self.accounts.forget_virtualhost(host.name)
        if self.stores is not None and host.store is not None:
            self.stores.drop(host.name)
            self.transactions.forget(host.name)
        for scope in [s for s in self.stops if s.virtualhost == host.name]:
            self.stopping.forget_stop(scope)
        self.turn.keep.append(Keep("virtualhost", str(host.object_name), None))

    def create_queue(
        self,
        host: VirtualHost,
        name: str,
        own: Mapping[str, Value] | None = None,
        *,
        durable: bool = False,
        transient: bool = False,
    ) -> Queue:
        """Raises InvalidValue if the name or the policy is not good, AlreadyExists, AdminError if it is to be durable
        and there is no store to be had."""
        check_name("queue", name)
        if name in host.queues:
            raise AlreadyExists(f"there is a queue {name} in virtual host {host.name} already")
        settings, limits = self.enforcement.settle(self.enforcement.layers(host, name, own or {}))
        number = 0
        if durable:
            self.open_store(host)
            number = self.last_store_id = self.last_store_id + 1
            self.records.keep_broker()
        queue = self.add_queue(host, name, own or {}, number)
        queue.transient = transient
        queue.set_limits(limits, settings)
        queue_fact(queue, "queue-created", "Create")
        self.stopping.stop_covered(queue)
        for usage in self.shortages.of(host):
            queue.begin_shortage(usage)
        self.turn.changed.add(queue)
        self.records.keep_queue(queue)
        return queue

    def open_store(self, host: VirtualHost) -> None:
        """Have a store for the virtual host, if stores there are. Raises AdminError."""
        if host.store is None and self.stores is not None:
            host.store = self.stores.open(host.name)

    def _open_temp(self) -> Store | None:
        """None if there is none to be had: then bodies stay in memory."""
        if self.temp is None and self.stores is not None:
            try:
                self.temp = self.stores.open_temp()
            except AdminError:
                return None
        return self.temp

    def add_queue(self, host: VirtualHost, name: str, own: Mapping[str, Value], number: int) -> Queue:
        """`number`: what the store knows it by; 0 if it is not durable."""
        queue: Queue
        if number and host.store is not None:
            queue = DurableQueue(host.name, name, self.turn, next(self._temp_ids), host.store)
            host.store.name_queue(number, name)
        else:
            queue = DeepQueue(host.name, name, self.turn, next(self._temp_ids))
        queue.use(host.meter)
        queue.store_id = number
        host.queues[name] = queue
        queue.own = dict(own)
        host.policies.add(name)
        return queue

    def delete_queue(self, queue: Queue, why: str = "") -> None:
        """Its links are detached, and its messages are gone. `why`: for those who used it."""
        self.subscriptions.forget(queue)
        self.temporary.forget(queue)
        links: list[Producer | Consumer] = [*queue.producers, *queue.takers, *queue.browsers]
        for link in links:
            self.turn.effects.append(Detach(link, "amqp:resource-deleted", why or f"queue {queue.name} was deleted"))
            self.detach(link)
        self.routing.unbind_everywhere(queue)
        host = self.virtualhosts[queue.virtualhost]
        del host.queues[queue.name]
        host.policies.drop(queue.name)
        queue.let_go()
        for each in (self.turn.touched, self.turn.changed, self.turn.watched):
            each.discard(queue)
        for scope in [s for s in self.stops if s.virtualhost == queue.virtualhost and s.queue == queue.name]:
            self.stopping.forget_stop(scope)
        queue_fact(queue, "queue-deleted", "Deleted")
        self.turn.keep.append(Keep("queue", str(queue.object_name), None))

    # -- policies ---------------------------------------------------------------------------------------------

    def set_own_policy(self, queue: Queue, own: Mapping[str, Value]) -> None:
        self.enforcement.set_own(queue, own)
        queue.version += 1
        self.turn.changed.add(queue)
        self.records.keep_queue(queue)

    def set_virtualhost_defaults(self, host: VirtualHost, defaults: Mapping[str, Value]) -> None:
        """All or nothing: refused if it would contradict what is set inside."""
        self.enforcement.set_virtualhost_defaults(host, defaults)

    def set_broker_defaults(self, defaults: Mapping[str, Value]) -> None:
        """All or nothing: refused if it would contradict what is set inside."""
        self.enforcement.set_broker_defaults(defaults)

    # -- stores -----------------------------------------------------------------------------------------------

    def recover(self, host: VirtualHost, messages: Iterable[tuple[int, int, int, int, int]]) -> int:
        """Take up the stored messages of a virtual host: (number of the queue, number, size, failed deliveries, when it
        expires), by queue and number. Those of queues that are no more are dropped from the store. Returns how
        many there are."""
        queues = {q.store_id: q for q in host.queues.values() if isinstance(q, DurableQueue)}
        count = 0
        for number, rows in groupby(messages, lambda row: row[0]):
            queue = queues.get(number)
            if queue is None:
                if host.store is not None:
                    host.store.drop_queue(number)
                continue
            for _, place, size, failed, expires in rows:
                queue.recover(place, size, failed, expires)
            count += queue.depth_messages
            queue.measure()
            self.turn.changed.add(queue)
        return count

    def committed(
        self, virtualhost: str, ticket: int, *, stored: bool, removed: bool, refused: Collection[int] = ()
    ) -> None:
        """What became of the changes with this ticket of a virtual host's store: whether their messages are stored,
        whether all changes up to it are safe, and the numbers of the transactions that were refused."""
        for queue in [q for q in self.turn.unsafe if q.virtualhost == virtualhost]:
            if not queue.committed(ticket, stored=stored, removed=removed, refused=refused):
                self.turn.unsafe.discard(queue)
        self.transactions.committed(virtualhost, ticket, refused)

    def spooled(self, ticket: int, *, stored: bool) -> None:
        """The same of the temp store."""
        for queue in list(self.turn.spooling):
            if not queue.spooled(ticket, stored=stored):
                self.turn.spooling.discard(queue)

    # -- connections and links --------------------------------------------------------------------------------

    def open_connection(
        self,
        hostname: str,
        *,
        user: str | None,
        remote_address: str,
        container_id: str,
        idle_timeout: int,
        handle: Any,
        sole: bool = False,
    ) -> Connection:
        """`hostname` as the client sent it; `user` None = did not sign in. `sole`: no other connection of this user may
        have the container-id. Raises NotFound, NotAllowed, ContainerInUse."""
        host = self._virtualhost_for(hostname)
        if user is None and not host.anonymous:
            raise NotAllowed(f"virtual host {host.name} does not let anonymous clients in")
        self._check_container(host, user or ANONYMOUS, container_id, sole=sole)
        connection = Connection(
            next(self._numbers),
            host.name,
            user=user or ANONYMOUS,
            remote_address=remote_address,
            container_id=container_id,
            idle_timeout=idle_timeout,
            opened=self.turn.now,
            sole=sole,
            handle=handle,
        )
        self.connections[connection.id] = connection
        self._connection_fact(connection, "connection-opened", f"Open : Container : {container_id}")
        return connection

    def _check_container(self, host: VirtualHost, user: str, container_id: str, *, sole: bool) -> None:
        """Refuse a connection where it, or one that is open, is to be the only one of its user and container-id."""
        for other in self.connections.values() if container_id else ():
            if (
                (sole or other.sole)
                and not other.leaving
                and (other.container_id, other.user, other.virtualhost) == (container_id, user, host.name)
            ):
                raise ContainerInUse(
                    {
                        "container-id": f"container-id {container_id} is in use by the connection of user {user} from"
                        f" {other.remote_address}, and one of the two is to be its only connection"
                    }
                )

    def _virtualhost_for(self, hostname: str) -> VirtualHost:
        """`vhost:NAME` must exist; a plain name may be that of a virtual host; else it is the host that the client
        dialled, which means the default."""
        if hostname.startswith("vhost:"):
            return self.virtualhost(hostname.removeprefix("vhost:"))
        return self.virtualhosts.get(hostname) or self.virtualhost(DEFAULT)

    def close_connection(self, connection: Connection, why: str = "") -> None:
        """The connection has ended. Messages its consumers held must have been put back before."""
        if self.connections.pop(connection.id, None) is None:
            return
        links: list[Producer | Consumer] = [*connection.producers, *connection.consumers]
        for link in links:
            self.detach(link)
        for transaction in list(connection.transactions.values()):
            self.transactions.roll_back(transaction)
        self._connection_fact(connection, "connection-closed", f"Close{f' : {why}' if why else ''}")

    def end_connection(self, connection: Connection, description: str) -> None:
        """Ask the protocol layer to end it."""
        self.turn.effects.append(Close(connection, "amqp:connection:forced", description))

    def find_or_create_queue(self, connection: Connection, name: str) -> Queue:
        """The queue a client attaches to. Raises NotFound where the virtual host does not create queues on attach."""
        host = self.virtualhosts[connection.virtualhost]
        queue = host.queues.get(name)
        if queue is not None:
            return queue
        check_not_gone(name)
        if not host.create_on_attach:
            raise NotFound(f"there is no queue {name} in virtual host {host.name}, and clients may not create it")
        return self.create_queue(host, name, durable=host.durable_queues)

    def resolve_target(self, connection: Connection, address: str, *, topic: bool = False) -> Target:
        """What a producer's address means, see `Routing.find`; a name that is nothing yet is a queue's, unless it is a
        topic's. Raises NotFound where the virtual host does not create what clients attach to."""
        host = self.virtualhosts[connection.virtualhost]
        found = self.routing.topic(host, address) if topic else self.routing.find(host, address)
        return found if found is not None else self.find_or_create_queue(connection, address)

    def attach_producer(
        self, connection: Connection, queue: Queue, link: str, channel: int, handle: Any, *, inside: bool = False
    ) -> Producer:
        """`inside`: see `Producer.inside`."""
        producer = Producer(next(self._numbers), connection, queue, link, channel=channel, handle=handle)
        producer.inside = inside
        self.producers[producer.id] = producer
        connection.producers.add(producer)
        queue.attach_producer(producer)
        return producer

    def attach_consumer(
        self,
        connection: Connection,
        queue: Queue,
        link: str,
        handle: Any,
        *,
        browsing: bool,
        selects: Callable[[bytes], bool] | None = None,
        group_of: Callable[[bytes], str] | None = None,
    ) -> Consumer:
        """`selects`: which messages it wants, by their encoded form. `group_of`: it asks for message groups, which is
        how to tell a message's; "" for none."""
        consumer = Consumer(
            next(self._numbers), connection, queue, link, browsing=browsing, handle=handle, selects=selects
        )
        if group_of is not None and not browsing:
            groups = queue.groups = queue.groups or Groups()
            consumer.selects = lambda body: (
                (selects is None or selects(body)) and groups.wants(consumer, group_of(body))
            )
        self.consumers[consumer.id] = consumer
        connection.consumers.add(consumer)
        queue.attach_consumer(consumer)
        return consumer

    def detach(self, link: Producer | Consumer) -> None:
        """The link has ended. What a consumer held must have been put back before. Idempotent."""
        if isinstance(link, Producer):
            if self.producers.pop(link.id, None) is not None:
                link.connection.producers.discard(link)
                link.queue.detach_producer(link)
        elif self.consumers.pop(link.id, None) is not None:
            link.connection.consumers.discard(link)
            link.queue.detach_consumer(link)
            self.subscriptions.left(link.queue)

    def refuse_producer(self, producer: Producer, condition: str, description: str) -> None:
        """The producer broke the protocol: forget it, and say so. The caller ends its link."""
        connection = producer.connection
        self.turn.state(
            "producer-detached",
            producer.name,
            f"{connection.subject}/ch:{producer.channel}",
            f"Detached : {condition} : {description}",
            {"client": connection.client, "link": producer.link, **producer.queue.shown()},
        )
        self.detach(producer)

    # -- time -------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Once every `credit.HOLD_MS` or so: take back credit that is not used."""
        for queue in list(self.turn.watched):
            if not queue.sweep():
                self.turn.watched.discard(queue)
        minute = self.turn.now // 60_000
        if minute != self._minute:
            self._minute = minute
            for queue in self.queues():
                queue.ledger.new_minute()

    def expire(self) -> None:
        """Once a second or so: remove messages whose time is up."""
        for queue in list(self.turn.expiring):
            if not queue.expire_all():
                self.turn.expiring.discard(queue)

    def release(self) -> bool:
        """Once every `credit.HOLD_MS` or so: show messages whose delivery time has come. True: there are more to show,
        in a turn of their own, so that others have theirs."""
        more = False
        for queue in list(self.turn.delayed):
            more = queue.release() or more
            if not queue.delayed:
                self.turn.delayed.discard(queue)
        return more

    def clock_set(self, ahead: int) -> None:
        """The machine's clock has been set; it is ahead of the engine's time by so many ms now. What lasts goes on as
        if it had not been, and what has a time of day moves."""
        turn = self.turn
        step, turn.ahead = ahead - turn.ahead, ahead
        turn.changed.update(self.queues())  # their times of day are others now
        for queue in turn.delayed:
            queue.delayed.clock_set(step)

    def sample(self) -> list[Queue]:
        """Once a second: look for slow consumers and for stops that are over; tell which queues have changed since the
        last time, with their rates brought up to date."""
        now = self.turn.now
        self.slow_consumers.look()
        self.stopping.look()
        passed, self._sampled_at = now - self._sampled_at, now
        seconds = passed / 1000 if passed > 0 else 1  # a clock may be set back
        changed = [q for q in self.turn.changed if self._has(q)]
        self.turn.changed.clear()
        for queue in changed:
            enqueued, dequeued = queue.sampled
            queue.rate_in = round((queue.enqueued - enqueued) / seconds, 1)
            queue.rate_out = round((queue.dequeued - dequeued) / seconds, 1)
            queue.sampled = (queue.enqueued, queue.dequeued)
            if queue.rate_in or queue.rate_out:
                self.turn.changed.add(queue)  # once more, so that its rates come down to 0
        return changed

    def _connection_fact(self, connection: Connection, kind: str, words: str) -> None:
        attributes = {"client": connection.client, "virtualhost": connection.virtualhost}
        self.turn.state(kind, connection.name, connection.subject, words, attributes)


def queue_fact(queue: Queue, kind: str, words: str, attributes: Mapping[str, Any] | None = None) -> None:
    """State a fact about a queue."""
    subject = queue_subject(queue.virtualhost, queue.name)
    queue.turn.state(kind, queue.object_name, subject, words, {**queue.shown(), **(attributes or {})})
