"""The generic base of managed types: find, read, query, create, update, delete and call objects.

A subclass has the type's name and says where its objects are, how each declared attribute is read (`readers`), how each
declared operation is performed (`operations`) and, if its type allows it, how objects are created, updated and deleted.
The base has the rules that all types share: the type's declaration says what is allowed, values are validated against
it, and an update is for a version. The errors are those of `brokers.admin`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from brokers.admin import InvalidValue, ManagedObject, NotAllowed, NotFound, Page, StaleVersion
from brokers.engine.management.queries import Query, select
from brokers.model import TYPES, ObjectName, check_arguments, check_attributes, object_name

T = TypeVar("T")

#: Reads one attribute of an object: a number, text, list or map; None where the attribute is nullable.
Reader = Callable[[T], Any]
#: Values by their names, each checked against its declaration.
Values = Mapping[str, Any]
#: Performs an operation; its arguments always include `actor`.
OperationCall = Callable[[T, Values], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """The attributes that an update changes, before and after; `actor`: who changes them."""

    before: Values
    after: Values
    actor: str


class ManagedObjects(Protocol):
    """The objects of one managed type, as requests use them."""

    def read(self, name: ObjectName) -> ManagedObject: ...

    def query(self, query: Query) -> Page: ...

    def create(self, name: ObjectName, attributes: Values, actor: str) -> ManagedObject: ...

    def update(self, name: ObjectName, attributes: Values, version: int, actor: str) -> ManagedObject: ...

    def delete(self, name: ObjectName, version: int | None, actor: str) -> None: ...

    def call(self, name: ObjectName, operation: str, arguments: Values, actor: str) -> Values: ...


class ManagedResource(ABC, Generic[T]):
    """See the module. `readers`: attribute -> its reader. `operations`: name -> its function."""

    type_name: ClassVar[str]
    readers: Mapping[str, Reader[T]]
    operations: Mapping[str, OperationCall[T]]

    def __init__(self) -> None:
        self.declared = TYPES[self.type_name]
        self.operations = {}

    # -- required of a type -----------------------------------------------------------------------------------

    @abstractmethod
    def all(self) -> Iterable[T]:
        """Return every object of the type, in any order."""

    @abstractmethod
    def look_up(self, name: ObjectName) -> T:
        """Return the object with this name, whose keys are those of the type. Raises NotFound."""

    @abstractmethod
    def name_of(self, thing: T) -> ObjectName:
        """Return the name of an object."""

    # -- optional for a type ----------------------------------------------------------------------------------

    def create_object(self, values: Values, actor: str) -> T:
        """Create an object. Raises InvalidValue, AlreadyExists."""
        raise NotAllowed(f"a {self.type_name.lower()} cannot be created")

    def update_object(self, thing: T, change: Change) -> None:
        """Change an object. Raises InvalidValue, with nothing changed."""
        raise NotAllowed(f"nothing of a {self.type_name.lower()} can be changed")

    def delete_object(self, thing: T, actor: str) -> None:
        """Delete an object. Raises NotAllowed or InvalidValue if it must not be deleted."""
        raise NotAllowed(f"a {self.type_name.lower()} cannot be deleted")

    def read_together(self, thing: T) -> Values:
        """Return those attributes that are cheaper to read together than by their readers one by one."""
        return {}

    # -- requests -----------------------------------------------------------------------------------------------

    def find(self, name: ObjectName) -> T:
        """Return the object with this name. Raises NotFound, also for a name with the wrong keys."""
        try:
            name = object_name(name.type, **dict(name.keys))
        except ValueError as error:
            raise NotFound(str(error)) from None
        return self.look_up(name)

    def describe(self, thing: T) -> ManagedObject:
        together = self.read_together(thing)
        attributes = {n: together[n] if n in together else read(thing) for n, read in self.readers.items()}
        return ManagedObject(self.name_of(thing), attributes["version"], attributes)

    def read(self, name: ObjectName) -> ManagedObject:
        return self.describe(self.find(name))

    def query(self, query: Query) -> Page:
        found = select(self.all(), self.declared, self.readers, self.name_of, query)
        wanted = found[query.offset : query.offset + query.count]
        return Page(tuple(self.describe(thing) for thing in wanted), len(found), query.offset)

    def create(self, name: ObjectName, attributes: Values, actor: str) -> ManagedObject:
        if not self.declared.creatable:
            raise NotAllowed(f"a {self.type_name.lower()} cannot be created")
        values = self._check_attributes({**dict(name.keys), **attributes}, creating=True)
        if other := [key for key, value in name.keys if values[key] != value]:
            raise InvalidValue({key: f"{key} is {values[key]!r} but the name says {name[key]!r}" for key in other})
        return self.describe(self.create_object(values, actor))

    def update(self, name: ObjectName, attributes: Values, version: int, actor: str) -> ManagedObject:
        thing = self.find(name)
        if not self.declared.writable:
            raise NotAllowed(f"nothing of a {self.type_name.lower()} can be changed")
        self._check_version(name, thing, version)
        values = self._check_attributes(attributes, creating=False)
        before = {attribute: self.readers[attribute](thing) for attribute in values}
        after = {attribute: value for attribute, value in values.items() if before[attribute] != value}
        if after:
            self.update_object(thing, Change({attribute: before[attribute] for attribute in after}, after, actor))
        return self.read(name)

    def delete(self, name: ObjectName, version: int | None, actor: str) -> None:
        thing = self.find(name)
        if not self.declared.deletable:
            raise NotAllowed(f"a {self.type_name.lower()} cannot be deleted")
        if version is not None:
            self._check_version(name, thing, version)
        self.delete_object(thing, actor)

    def call(self, name: ObjectName, operation: str, arguments: Values, actor: str) -> Values:
        declared = self.declared.operation(operation)
        if declared is None:
            raise NotFound(f"{self.type_name} has no operation {operation}")
        thing = self.find(name)
        good, wrong = check_arguments(declared, {a: v for a, v in arguments.items() if v is not None})
        if wrong:
            raise InvalidValue(dict(wrong))
        good["actor"] = good.get("actor") or actor
        return self.operations[operation](thing, good)

    def _check_attributes(self, given: Values, *, creating: bool) -> dict[str, Any]:
        good, wrong = check_attributes(self.declared, given, creating=creating)
        if wrong:
            raise InvalidValue(dict(wrong))
        return good

    def _check_version(self, name: ObjectName, thing: T, version: int) -> None:
        current = self.readers["version"](thing)
        if current != version:
            raise StaleVersion(
                f"{name} is at version {current}, and the change was made from version {version}: read it again",
                current,
            )
