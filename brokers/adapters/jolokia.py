"""Jolokia, JMX as JSON over HTTP: how Artemis and ActiveMQ Classic are read and changed.

Requests are values (`read`, `execute`, `write`, `search`, `describe`); any number of them is one POST, whose answers
come in the same order. Errors arrive within HTTP 200: each answer has its own status, so that one MBean that has
vanished spoils nothing else. Limits that an agent may have on collections are lifted, or lists would be cut short
without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from brokers.adapters.http import JsonHttp
from brokers.admin import AdminError, BrokerUnreachable, NotAllowed, NotFound

Request = Mapping[str, Any]

_QUERY = {"maxCollectionSize": "0", "maxObjects": "0", "ignoreErrors": "true", "includeStackTrace": "false"}

#: What begins the text that Jolokia 1 gives instead of a value if the broker fails to read it (`ignoreErrors`).
_FAULT = "ERROR: "

_ESCAPES = {"\n": "\\n", "\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?"}
_PROPERTY = re.compile(r'([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]*)(?:,|$)', re.DOTALL)


class JolokiaError(AdminError):
    """A request failed in the broker. `status`: Jolokia's; `kind`: the Java class of the error, "" if unknown."""

    def __init__(self, message: str, status: int, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request: its value, or the error."""

    value: Any
    error: AdminError | None = None

    def get(self) -> Any:
        """Return the value. Raises NotFound for an unknown MBean, attribute or operation, NotAllowed, JolokiaError."""
        if self.error is not None:
            raise self.error
        return self.value


# -- requests -----------------------------------------------------------------------------------------------------


def read(mbean: str, *attributes: str) -> Request:
    """Read attributes of an MBean: a mapping by name. Of a pattern: MBean name -> such a mapping, only of those that
    have one of the attributes."""
    return {"type": "read", "mbean": mbean, "attribute": list(attributes)}


def execute(mbean: str, operation: str, *arguments: Any) -> Request:
    """Call an operation. `operation`: with its signature, `block()` or `sum(int,int)`, since it may be overloaded."""
    return {"type": "exec", "mbean": mbean, "operation": operation, "arguments": list(arguments)}


def write(mbean: str, attribute: str, value: Any) -> Request:
    """Set an attribute: the answer is its value before."""
    return {"type": "write", "mbean": mbean, "attribute": attribute, "value": value}


def named(request: Request) -> str:
    """Return what a request is for, in the words of access rules: `block()`, or `the attribute MemoryLimit`."""
    if "operation" in request:
        return f"{str(request['operation']).partition('(')[0]}()"
    return f"the attribute {request['attribute']}" if request["type"] == "write" else f"to {request['type']}"


def search(pattern: str) -> Request:
    """List the names of the MBeans that match a pattern."""
    return {"type": "search", "mbean": pattern}


def describe(mbean: str) -> Request:
    """Describe one MBean, not a pattern: its attributes ("attr") and operations ("op"), by name."""
    domain, properties = mbean.split(":", 1)
    return {"type": "list", "path": f"{_path(domain)}/{_path(properties)}"}


def _path(text: str) -> str:
    return text.replace("!", "!!").replace("/", "!/")


# -- names --------------------------------------------------------------------------------------------------------


def quote(value: str) -> str:
    r"""Return a value of an MBean name in quotes: `a*"b` -> `"a\*\"b"`."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


@lru_cache(maxsize=50_000)  # the names of thousands of queues are read every second
def properties_of(mbean: str) -> Mapping[str, str]:
    """Return the key properties of an MBean name, without quotes."""
    _, _, properties = mbean.partition(":")
    return MappingProxyType({match[1]: _unquoted(match[2]) for match in _PROPERTY.finditer(properties)})


def _unquoted(value: str) -> str:
    if len(value) < 2 or not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value[1:-1], flags=re.DOTALL)


# -- answers ------------------------------------------------------------------------------------------------------


def answer_of(said: Any, request: Request | None = None) -> Answer:
    """Read the answer to one request. Attributes that the broker failed to read are left out."""
    if not isinstance(said, dict):
        return Answer(None, BrokerUnreachable("what answers is not Jolokia: is this the right address?"))
    status = said.get("status")
    if status == 200:
        return Answer(_without_faults(said.get("value")))
    words = str(said.get("error") or f"status {status}")
    kind = str(said.get("error_type") or "")
    words = words.removeprefix(f"{kind} : ")
    if status in (401, 403) or kind == "java.lang.SecurityException":
        what = named(request) if request else "it"
        return Answer(None, NotAllowed(f"the user lacks a permission, the broker refuses {what}: {words}"))
    if status == 404:
        return Answer(None, NotFound(words))
    return Answer(None, JolokiaError(words, status if isinstance(status, int) else 0, kind))


def _without_faults(value: Any) -> Any:
    """Leave out faults at the two levels where attributes are: of one MBean, and of each that matches a pattern."""
    if not isinstance(value, dict):
        return value
    return {
        key: {name: each for name, each in inner.items() if not _is_fault(each)} if isinstance(inner, dict) else inner
        for key, inner in value.items()
        if not _is_fault(inner)
    }


def _is_fault(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get(".error") is True  # Jolokia 2
    return isinstance(value, str) and value.startswith(_FAULT)


class Agent(Protocol):
    """What takes these requests: Jolokia itself, or what answers as it does."""

    @property
    def base(self) -> str: ...

    async def post(self, requests: Sequence[Request], *, seconds: float = 0.0) -> list[Answer]: ...

    async def one(self, request: Request, *, seconds: float = 0.0) -> Any: ...

    async def close(self) -> None: ...


async def refused(agent: Agent, requests: Sequence[Request]) -> list[Request]:
    """Return those of the requests that the user has no permission for. They are sent, so they must be for objects
    that do not exist: permissions are checked first."""
    answers = await agent.post(requests)
    return [r for r, answer in zip(requests, answers, strict=True) if isinstance(answer.error, NotAllowed)]


class Jolokia:
    """The agent at an address, which ends in `/jolokia`."""

    def __init__(self, http: JsonHttp) -> None:
        self._http = http
        address = urlsplit(http.base)
        # Strict agents refuse requests without it. The agent's own address is what its own console sends.
        self._headers = {"Origin": f"{address.scheme}://{address.netloc}"}

    @property
    def base(self) -> str:
        return self._http.base

    async def post(self, requests: Sequence[Request], *, seconds: float = 0.0) -> list[Answer]:
        """Send requests at once; return their answers in the same order. `seconds`: time for all, 0 for the usual.
        Raises BrokerUnreachable, NotAllowed or NotFound if there is no such agent or it refuses everything."""
        if not requests:
            return []
        said = await self._http.request(
            "POST", "", query=_QUERY, body=list(requests), seconds=seconds, headers=self._headers
        )
        if not isinstance(said, list):
            answer_of(said).get()  # one error for all
            raise BrokerUnreachable(f"{self.base} gives one answer to several requests: is this the right address?")
        if len(said) != len(requests):
            raise BrokerUnreachable(f"{self.base} gives {len(said)} answers to {len(requests)} requests")
        return [answer_of(each, request) for each, request in zip(said, requests, strict=True)]

    async def one(self, request: Request, *, seconds: float = 0.0) -> Any:
        """Send one request; return its value. Raises also what `Answer.get` raises."""
        (answer,) = await self.post([request], seconds=seconds)
        return answer.get()

    async def close(self) -> None:
        await self._http.close()
