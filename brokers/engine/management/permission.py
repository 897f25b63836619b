"""Management with the permissions of one user, who sees and changes only the virtual hosts that it manages.

Objects outside virtual hosts (the broker, its users, the list of virtual hosts) are for administrators. A refusal is
the same whether the object exists or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import ManagedObject, NotAllowed, Page
from brokers.engine.management.requests import Management
from brokers.engine.values.rights import CONSUME, MANAGE, PUBLISH, Rights
from brokers.model import TYPES, ObjectName
from brokers.model.message_operations import MESSAGE_READER, PUBLISHER

#: Console roles that an operation needs -> the right that a user of the broker needs beside `manage`: one that may not
#: consume must not read bodies, and one that may not publish must not publish test messages.
_ROLES = {MESSAGE_READER: CONSUME, PUBLISHER: PUBLISH}


def virtualhost_of(name: ObjectName) -> str:
    """Return the virtual host that an object belongs to; "" for objects of the broker."""
    return name["name"] if name.type == "VirtualHost" else name.get("virtualhost")


class ManagementAs:
    """See the module. `user`: of the connection; `actor` of a method: the author of the change."""

    def __init__(self, management: Management, user: str, rights: Rights) -> None:
        self.management = management
        self.user = user
        self.rights = rights

    def read(self, name: ObjectName) -> ManagedObject:
        self._need(name)
        return self.management.read(name)

    def query(self, type_name: str, **criteria: Any) -> Page:
        declared = TYPES.get(type_name)
        if declared is not None and not self.rights.administrator:
            if "virtualhost" not in declared.keys and type_name != "VirtualHost":
                raise self._refused(f"objects of type {type_name}")
            return self.management.query(type_name, **criteria, visible=self.may_see)
        return self.management.query(type_name, **criteria)

    def create(self, name: ObjectName, attributes: Mapping[str, Any], actor: str) -> ManagedObject:
        self._need_to_make(name)
        return self.management.create(name, attributes, actor)

    def update(self, name: ObjectName, attributes: Mapping[str, Any], version: int, actor: str) -> ManagedObject:
        self._need(name)
        return self.management.update(name, attributes, version, actor)

    def delete(self, name: ObjectName, version: int | None, actor: str) -> None:
        self._need_to_make(name)
        self.management.delete(name, version, actor)

    def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        self._need(name)
        declared = TYPES[name.type].operation(operation)
        right = _ROLES.get(declared.role) if declared is not None else None
        if right is not None and not self.rights.may(right, virtualhost_of(name)):
            raise NotAllowed(f"user {self.user} has no permission to {right}, which {operation} needs")
        return self.management.call(name, operation, arguments, self.user)

    def may_see(self, name: ObjectName) -> bool:
        return self.rights.may(MANAGE, virtualhost_of(name))

    def _need(self, name: ObjectName) -> None:
        if not self.may_see(name):
            raise self._refused(str(name))

    def _need_to_make(self, name: ObjectName) -> None:
        """Raise NotAllowed unless the user may create or delete the object; virtual hosts need an administrator."""
        if name.type == "VirtualHost" and not self.rights.administrator:
            raise self._refused(f"{name} as a whole")
        self._need(name)

    def _refused(self, what: str) -> NotAllowed:
        return NotAllowed(f"user {self.user} has no permission to manage {what}")
