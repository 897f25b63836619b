"""Which clients an operator's stop is for: by user, by container-id, by the name of a link, or by several of these.

A client is identified by what it sends each time it connects, so a stop also applies to producers that it attaches
later, on other connections and after a restart. The name of a link narrows a stop to one producer; many clients choose
another name with each attach.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from brokers.admin import InvalidValue

#: Longest user, container-id or name of a link that a stop can name, in characters.
LONGEST = 1000

_WORD = re.compile(r'(user|container_id|link)=("(?:[^"\\]|\\.)*"|[^ "]+) ')


@dataclass(frozen=True, slots=True)
class Client:
    """An empty field does not restrict it; without any, it stands for all clients."""

    user: str = ""
    container_id: str = ""
    link: str = ""

    def __bool__(self) -> bool:
        """Return whether it stands for some clients, not for all."""
        return bool(self.user or self.container_id or self.link)

    def __str__(self) -> str:
        """Return the client for people and records: unique, and read back by `parse`."""
        return " ".join(f"{name}={_quoted(value)}" for name, value in asdict(self).items() if value)

    def covers(self, user: str, container_id: str, link: str) -> bool:
        """Return whether it stands for a link of a client."""
        return self.user in ("", user) and self.container_id in ("", container_id) and self.link in ("", link)

    def contains(self, other: Client) -> bool:
        """Return whether it stands for every client that `other` stands for."""
        return self.covers(other.user, other.container_id, other.link)

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Client:
        """Return the client that the arguments of an operation name. Raises InvalidValue."""
        found = cls(**{each.name: given.get(each.name) or "" for each in fields(cls)})
        if wrong := [name for name, value in found.as_json().items() if len(value) > LONGEST]:
            raise InvalidValue({wrong[0]: f"{wrong[0]} has more than {LONGEST:,} characters"})
        return found

    @classmethod
    def parse(cls, text: str) -> tuple[Client, str] | None:
        """Parse `CLIENT of REST`: (client, REST); None if the text has another form."""
        found: dict[str, str] = {}
        while match := _WORD.match(text):
            try:
                found[match[1]] = json.loads(match[2]) if match[2].startswith('"') else match[2]
            except ValueError:
                return None
            text = text[match.end() :]
        return (cls(**found), text.removeprefix("of ")) if found and text.startswith("of ") else None


#: All clients.
EVERY_CLIENT = Client()


def _quoted(value: str) -> str:
    """Return a value, in quotes if it would be ambiguous without."""
    plain = value.isprintable() and not set(value) & set(' "')
    return value if plain else json.dumps(value, ensure_ascii=not value.isprintable())
