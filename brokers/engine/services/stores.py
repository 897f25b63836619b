"""The open stores: one per virtual host with durable queues, and the temp store, opened on first use."""

from __future__ import annotations

from brokers.admin import AdminError
from brokers.engine.ports import Store, Stores
from brokers.engine.registry.virtualhost import VirtualHost


class OpenStores:
    """`provider` None: no stores; durable queues survive a restart without their messages, and nothing is spooled."""

    def __init__(self, provider: Stores | None) -> None:
        self.provider = provider
        self.temp: Store | None = None

    def open(self, host: VirtualHost) -> None:
        """Open the store of a virtual host, if there is a provider. Raises AdminError."""
        if host.store is None and self.provider is not None:
            host.store = self.provider.open(host.name)

    def open_temp(self) -> Store | None:
        """Return the temp store; None if it cannot be opened: then bodies stay in memory."""
        if self.temp is None and self.provider is not None:
            try:
                self.temp = self.provider.open_temp()
            except AdminError:
                return None
        return self.temp

    def drop(self, host: VirtualHost) -> bool:
        """Delete the store of a deleted virtual host. Return False if it had none."""
        if self.provider is None or host.store is None:
            return False
        self.provider.drop(host.name)
        return True
