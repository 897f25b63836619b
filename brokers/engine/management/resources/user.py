"""The managed type User."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from brokers.admin import ManagedObject
from brokers.engine.management.resources.resource import Change, ManagedResource, Values
from brokers.engine.services.accounts import Accounts, User
from brokers.model import ObjectName


class UserResource(ManagedResource[User]):
    type_name = "User"

    def __init__(self, accounts: Accounts) -> None:
        super().__init__()
        self.accounts = accounts
        self.readers = {
            "name": lambda user: user.name,
            "password": lambda user: None,  # never readable
            "has_password": lambda user: user.verifier is not None,
            "certificate_subject": lambda user: user.certificate_subject,
            "administrator": lambda user: user.rights.administrator,
            "grants": lambda user: user.rights.as_texts(),
            "connections": lambda user: accounts.connections(user.name),
            "version": lambda user: user.version,
        }
        self.operations = {"renew-password": lambda user, given: accounts.renew_password(user, given["actor"])}

    def all(self) -> Iterable[User]:
        return self.accounts.users.values()

    def look_up(self, name: ObjectName) -> User:
        return self.accounts.user(name["name"])

    def name_of(self, thing: User) -> ObjectName:
        return thing.object_name

    def create(self, name: ObjectName, attributes: Values, actor: str) -> ManagedObject:
        """Create a user. Only this answer contains the password, if one was generated."""
        created = super().create(name, attributes, actor)
        return replace(created, attributes={**created.attributes, **self.accounts.take_generated_password()})

    def create_object(self, values: Values, actor: str) -> User:
        return self.accounts.create(values, actor)

    def update_object(self, thing: User, change: Change) -> None:
        self.accounts.update(thing, change.after, change.actor)

    def delete_object(self, thing: User, actor: str) -> None:
        self.accounts.delete(thing, actor)
