"""What the page of a client, or of one connection, watches: its connections, their links, and the stops in force.

The broker does not send the changes of these objects, so that the socket reads them again periodically.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.admin import BrokerAdmin, ManagedObject, NotFound
from brokers.model import ManagedType, ObjectName
from console.links.link import BrokerLink

#: Connections and links of each type in a snapshot, blocked ones first, and connections in a request for their links.
MOST, AT_ONCE = 500, 50
#: Attribute of connections or producers -> the order that has blocked ones first.
_BLOCKED_FIRST = {"blocked_producers": "-blocked_producers", "state": "state"}


async def client_data(link: BrokerLink, name: ObjectName, client: tuple[str, str] | None) -> dict[str, Any]:
    """Return {read_at, connections, producers, consumers, stops}. `name`: a connection, or the virtual host of a
    `client`: user and container-id, one of which may be empty. The lists are {items: [{name, attributes}], total};
    null: the broker does not report them. `read_at`: ms since the epoch, so that rates are known from any two
    snapshots. Raises AdminError."""
    found = await link.acall(lambda admin: _read(admin, name, client))
    stops = (link.broker or {}).get("stops") or ()
    return {"read_at": int(time.time() * 1000), **found, "stops": list(stops)}


async def _read(admin: BrokerAdmin, name: ObjectName, client: tuple[str, str] | None) -> dict[str, Any]:
    types = await admin.types()
    connections = await _connections(admin, types, name, client)
    producers, consumers = await asyncio.gather(
        _links(admin, types, "Producer", connections), _links(admin, types, "Consumer", connections)
    )
    return {"connections": connections, "producers": producers, "consumers": consumers}


async def _connections(
    admin: BrokerAdmin, types: Mapping[str, ManagedType], name: ObjectName, client: tuple[str, str] | None
) -> dict[str, Any] | None:
    if "Connection" not in types:
        return None
    if client is None:
        try:
            return _listed([await admin.read(name)], 1)
        except NotFound:
            return _listed([], 0)
    given = {"virtualhost": name["name"], "user": client[0], "container_id": client[1]}
    where = {key: value for key, value in given.items() if value and types["Connection"].attribute(key)}
    return await _list(admin, types["Connection"], where)


async def _links(
    admin: BrokerAdmin, types: Mapping[str, ManagedType], type_name: str, connections: dict[str, Any] | None
) -> dict[str, Any] | None:
    if connections is None or type_name not in types or types[type_name].attribute("connection") is None:
        return None
    names = [item["name"] for item in connections["items"]]
    pages = await asyncio.gather(
        *(
            _list(admin, types[type_name], {"connection": names[first : first + AT_ONCE]})
            for first in range(0, len(names), AT_ONCE)
        )
    )
    items = [item for page in pages for item in page["items"]]
    if len(pages) > 1 and (order := _order(types[type_name])):
        attribute = order.removeprefix("-")
        items.sort(key=lambda item: _blocked_first(item["attributes"].get(attribute), descending=order[0] == "-"))
    return {"items": items[:MOST], "total": sum(page["total"] for page in pages)}


def _order(declared: ManagedType) -> str:
    return next((order for attribute, order in _BLOCKED_FIRST.items() if declared.attribute(attribute)), "")


def _blocked_first(value: Any, *, descending: bool) -> tuple[bool, Any]:
    """Return a key for sorting: unknown values are last."""
    return value is None, 0 if value is None else -value if descending else value


async def _list(admin: BrokerAdmin, declared: ManagedType, where: Mapping[str, Any]) -> dict[str, Any]:
    page = await admin.query(declared.name, where=where, sort=_order(declared), count=MOST)
    return _listed(page.items, page.total)


def _listed(objects: Sequence[ManagedObject], total: int) -> dict[str, Any]:
    return {
        "items": [{"name": str(each.name), "attributes": dict(each.attributes)} for each in objects],
        "total": total,
    }
