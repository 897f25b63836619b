"""The stores that are open: one of each virtual host that has durable queues, and the temp store, opened on need."""

from __future__ import annotations

from brokers.admin import AdminError
from brokers.engine.ports import Store, Stores
from brokers.engine.registry.virtualhost import VirtualHost


class OpenStores:
    """`provider` None: durable queues survive a restart, their messages do not, and nothing is spooled."""

    def __init__(self, provider: Stores | None) -> None:
        self.provider = provider
        self.temp: Store | None = None

    def open(self, host: VirtualHost) -> None:
        """Have a store for the virtual host, if there are stores. Raises AdminError."""
        if host.store is None and self.provider is not None:
            host.store = self.provider.open(host.name)

    def open_temp(self) -> Store | None:
        """None if it cannot be opened: then bodies stay in memory."""
        if self.temp is None and self.provider is not None:
            try:
                self.temp = self.provider.open_temp()
            except AdminError:
                return None
        return self.temp

    def drop(self, host: VirtualHost) -> bool:
        """The virtual host is deleted, and its messages with it. False: it had no store."""
        if self.provider is None or host.store is None:
            return False
        self.provider.drop(host.name)
        return True
