"""Queries for the objects of one managed type: filtered by attributes, searched, sorted.

The criteria are untrusted input, which `Query.check` validates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from brokers.admin import InvalidValue
from brokers.model import Kind, ManagedType, ObjectName

MAX_PAGE = 1000

T = TypeVar("T")
Readers = Mapping[str, Callable[[T], Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """`where`: attribute -> wanted value, or a list of alternatives. `search`: text in the name or in an attribute that
    the type declares as searched. `sort`: attributes separated by commas, each with `-` before it for descending order.
    `visible`: whether the user may see an object; None: all."""

    where: Mapping[str, Any] | None = None
    search: str = ""
    sort: str = ""
    offset: int = 0
    count: int = 100
    visible: Callable[[ObjectName], bool] | None = None

    def check(self) -> None:
        """Raise InvalidValue for criteria of the wrong type or range."""
        errors = {}
        if self.where is not None and not isinstance(self.where, Mapping):
            errors["where"] = f"where is {self.where!r}: it must be a map of attributes to values"
        for field, text in (("search", self.search), ("sort", self.sort)):
            if not isinstance(text, str):
                errors[field] = f"{field} is {text!r}: it must be text"
        numbers = all(isinstance(n, int) and not isinstance(n, bool) for n in (self.offset, self.count))
        if not numbers or self.offset < 0 or not 0 <= self.count <= MAX_PAGE:
            errors["count"] = (
                f"offset {self.offset!r} and count {self.count!r}: offset from 0, count from 0 to {MAX_PAGE}"
            )
        if errors:
            raise InvalidValue(errors)


def select(
    objects: Iterable[T],
    declared: ManagedType,
    readers: Readers[T],
    name_of: Callable[[T], ObjectName],
    query: Query,
) -> list[T]:
    """Return the matching objects, sorted by `sort` and then by name. Raises InvalidValue."""
    query.check()
    found = list(objects)
    if query.visible is not None:
        found = [thing for thing in found if query.visible(name_of(thing))]
    for attribute, wanted in (query.where or {}).items():
        found = _filter(found, declared, readers, attribute, wanted)
    if query.search:
        text, also = query.search.casefold(), [readers[attribute] for attribute in declared.searched]
        found = [thing for thing in found if text in _searched_text(thing, name_of(thing), also)]
    found.sort(key=lambda thing: _natural(name_of(thing).keys))
    for attribute in reversed([a.strip() for a in query.sort.split(",") if a.strip()]):
        found.sort(key=_sort_key(declared, readers, attribute.lstrip("-")), reverse=attribute.startswith("-"))
    return found


def _filter(objects: Iterable[T], declared: ManagedType, readers: Readers[T], attribute: str, wanted: Any) -> list[T]:
    found = declared.attribute(attribute)
    if found is None:
        raise InvalidValue({attribute: f"{attribute} is not an attribute of {declared.name}"})
    read = readers[attribute]
    values: Collection[Any] = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    if found.kind is Kind.NAME:
        return [thing for thing in objects if _is_named(read(thing), values)]
    if found.kind is Kind.STRING and all(isinstance(value, str) for value in values):
        values = frozenset(values)  # a hundred names, compared with those of thousands of queues
    return [thing for thing in objects if read(thing) in values]


def _searched_text(thing: T, name: ObjectName, also: Iterable[Callable[[T], Any]]) -> str:
    """Return the text that is searched."""
    words = [value for _, value in name.keys] + [str(read(thing)) for read in also]
    return "/".join(words).casefold()


def _sort_key(declared: ManagedType, readers: Readers[T], attribute: str) -> Callable[[T], Any]:
    if declared.attribute(attribute) is None:
        raise InvalidValue({"sort": f"{attribute} is not an attribute of {declared.name}"})
    read = readers[attribute]

    def key(thing: T) -> Any:
        value = read(thing)
        if value is None:
            return (False, False, 0)
        plain = value if isinstance(value, (int, float)) else str(value).casefold()
        return (True, isinstance(plain, str), plain)

    return key


def _is_named(value: Any, wanted: Iterable[Any]) -> bool:
    """`value` is the name of an object: it may be given whole, or by its last key, such as a queue's name."""
    if value is None:
        return None in wanted
    return value in wanted or ObjectName.parse(value).keys[-1][1] in wanted


@lru_cache(maxsize=20_000)  # a page of thousands of queues sorts all of them
def _natural(keys: tuple[tuple[str, str], ...]) -> tuple[tuple[int, str], ...]:
    """Return a sort key for names, with numbers by value."""
    return tuple((int(v), "") if v.isdecimal() and len(v) < 20 else (-1, v) for _, v in keys)
